"""The registry of prefixes: laws over random lives, on disk, shared by servers, within the pool's bounds."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.base import EngineError, prefix_id
from engine.bounds import Limits
from engine.pins import Pool
from engine.prefixes import Change, Registry
from engine.registered import Registered
from engine.salts import Salts
from engine.shelf import Rows

POOL = Pool(num_tokens=1000, block_size=10, max_model_len=400, pin_share=0.5, vocabulary=None)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def registry_in(folder: Path, clock: Clock, *, pool: Pool = POOL, limits: Limits | None = None) -> Registry:
    return Registry(folder / "prefixes", Salts(folder), pool, limits=limits, clock=clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(tmp_path: Path, clock: Clock) -> Iterator[Registry]:
    made = registry_in(tmp_path, clock)
    yield made
    made.close()


def code_of(caught: pytest.ExceptionInfo[EngineError]) -> str:
    return caught.value.code


def test_same_ids_give_the_same_handle_and_object(registry: Registry) -> None:
    """Registered twice, by a list and by an array: one handle, one object, the id that anybody can compute."""
    first = registry.register([5, 6, 7], "kb", name="a")
    second = registry.register(np.array([5, 6, 7], dtype=np.int64), "kb")
    assert second is first
    assert first.id == prefix_id("kb", [5, 6, 7])
    assert registry.register([5, 6, 7], "other").id != first.id
    assert len(registry.all()) == 2
    assert not first.token_ids.flags.writeable
    assert registry.facts(first.id, "kb").name == "a"


def test_a_handle_is_unknown_in_another_namespace(registry: Registry) -> None:
    """As if it were not there, for every call."""
    handle = registry.register([1, 2], "kb").id
    for call in (
        lambda: registry.get(handle, "other"),
        lambda: registry.facts(handle, ""),
        lambda: registry.free(handle, "other"),
        lambda: registry.patch(handle, "other", Change(pin=True)),
        lambda: registry.use(handle, "other").__enter__(),
    ):
        with pytest.raises(EngineError) as caught:
            call()
        assert code_of(caught) == "unknown_prefix"
    assert registry.get(handle, "kb").num_tokens == 2


@pytest.mark.parametrize("namespace", ["a\0b", "a\nb"])
def test_a_namespace_has_no_control_characters(registry: Registry, namespace: str) -> None:
    """A NUL would let one namespace bear another one's salt."""
    with pytest.raises(EngineError) as caught:
        registry.register([1], namespace)
    assert code_of(caught) == "bad_request"


@pytest.mark.parametrize("ids", [[], [-1], [2**31], [[1, 2]], [1.5]])
def test_what_are_no_token_ids_is_refused(registry: Registry, ids: object) -> None:
    """Nothing is written for them."""
    with pytest.raises(EngineError) as caught:
        registry.register(ids)  # type: ignore[arg-type]
    assert code_of(caught) == "bad_request"
    assert registry.all() == []


def test_a_freed_prefix_comes_back_with_another_salt(registry: Registry) -> None:
    """Its sibling in the namespace keeps its own, and so do prefixes of one namespace among each other."""
    first, sibling = registry.register([1, 2], "kb"), registry.register([1, 3], "kb")
    assert first.salt == sibling.salt
    assert registry.free(first.id, "kb") is first
    with pytest.raises(EngineError):
        registry.get(first.id, "kb")
    again = registry.register([1, 2], "kb")
    assert again.id == first.id
    assert again.salt != first.salt
    assert registry.register([1, 3], "kb").salt == sibling.salt


def test_each_use_renews_the_life(registry: Registry, clock: Clock) -> None:
    """A TTL of 10 s, used after 8 s and until 9 s: it lives until 19 s."""
    handle = registry.register([1], ttl_s=10).id
    clock.now += 8
    with registry.use(handle):
        clock.now += 1
    facts = registry.facts(handle)
    assert (facts.expires_at, facts.last_used, facts.hits) == (clock.now + 10, clock.now, 1)
    clock.now += 9.5
    registry.get(handle)
    clock.now += 0.5
    with pytest.raises(EngineError):
        registry.get(handle)
    assert [gone.id for gone in registry.expire()] == [handle]


async def test_a_question_is_on_its_way_before_it_is_counted(registry: Registry, clock: Clock) -> None:
    """On an event loop the count waits for its turn; both ends of the life are the same in the end."""
    handle = registry.register([1], ttl_s=600).id
    clock.now += 8
    with registry.use(handle):
        assert (registry.facts(handle).hits, registry.facts(handle).last_used) == (0, clock.now - 8)
        await asyncio.sleep(0)
        assert (registry.facts(handle).hits, registry.facts(handle).last_used) == (1, clock.now)
        clock.now += 1
    assert (registry.facts(handle).hits, registry.facts(handle).expires_at) == (1, clock.now + 600)


async def test_what_is_about_to_be_dropped_is_renewed_first(registry: Registry, clock: Clock, tmp_path: Path) -> None:
    """Another server that shares the folder drops what has expired, and not what a question has just begun to use."""
    other = registry_in(tmp_path, clock)
    handle = registry.register([1], ttl_s=100).id
    clock.now += 41
    with registry.use(handle):
        assert registry.facts(handle).hits == 1
        clock.now += 60
        assert other.expire() == []
    other.close()


async def test_an_ids_file_that_somebody_removed_is_there_before_the_question_goes(
    registry: Registry, tmp_path: Path
) -> None:
    """The engine core reads it when the question comes."""
    handle = registry.register([1, 2, 3]).id
    file = next((tmp_path / "prefixes").glob(f"{handle}*"))
    file.unlink()
    with registry.use(handle):
        assert file.stat().st_size == 12


def test_one_in_use_outlives_its_time(registry: Registry, clock: Clock) -> None:
    """An answer that takes longer than the TTL ends well, and its end renews the life."""
    handle = registry.register([1], ttl_s=10).id
    with registry.use(handle):
        clock.now += 60
        assert registry.expire() == []
    assert registry.facts(handle).expires_at == clock.now + 10


def test_registering_again_keeps_the_longer_life(registry: Registry, clock: Clock) -> None:
    """Two who registered it: neither shortens the other's; a PATCH sets it to the letter."""
    handle = registry.register([1], ttl_s=100).id
    registry.register([1], ttl_s=10)
    assert registry.facts(handle).ttl_s == 100
    registry.register([1])
    assert registry.facts(handle).expires_at is None
    clock.now += 5
    assert registry.patch(handle, "", Change(sets_ttl=True, ttl_s=3)).expires_at == clock.now + 3


def test_pins_stop_at_their_share_of_the_pool(registry: Registry) -> None:
    """Half of 1,000 tokens; 245 tokens take 25 blocks of 10. The sentence has the numbers."""
    pinned = registry.register(range(245), pin=True)
    registry.register(range(1, 246), pin=True)
    with pytest.raises(EngineError, match=r"500 tokens of the 500 .* holds 1,000, the largest prompt 400\), so 1 more"):
        registry.register([1], "kb", pin=True)
    assert len(registry.all()) == 2  # what could not be pinned was not registered by halves
    loose = registry.register([1], "kb")
    with pytest.raises(EngineError) as caught:
        registry.patch(loose.id, "kb", Change(pin=True))
    assert code_of(caught) == "pins_full"
    registry.patch(pinned.id, "", Change(pin=False))
    assert registry.patch(loose.id, "kb", Change(pin=True)).pinned


def test_beside_the_pins_the_largest_prompt_finds_room(tmp_path: Path, clock: Clock) -> None:
    """A share of 0.9 of 1,000 would leave 100 for a prompt of 400."""
    registry = registry_in(tmp_path, clock, pool=Pool(1000, 10, 400, 0.9))
    registry.register(range(300), pin=True)
    registry.register(range(5, 305), pin=True)
    with pytest.raises(EngineError) as caught:
        registry.register([1], pin=True)
    assert code_of(caught) == "pins_full"


@pytest.mark.parametrize(
    ("pool", "num_tokens", "numbers"), [(POOL, 400, "400 .* at most 399"), (Pool(300, 10, 400, 0.5), 300, "300 .* 300")]
)
def test_what_can_never_fit_is_refused_with_the_numbers(
    tmp_path: Path, clock: Clock, pool: Pool, num_tokens: int, numbers: str
) -> None:
    """One token fewer fits: a token of the question has to follow."""
    registry = registry_in(tmp_path, clock, pool=pool)
    with pytest.raises(EngineError, match=numbers) as caught:
        registry.register(range(num_tokens))
    assert code_of(caught) == "does_not_fit"
    assert registry.register(range(num_tokens - 1)).num_tokens == num_tokens - 1


def test_the_least_recently_used_makes_room(tmp_path: Path, clock: Clock) -> None:
    """Never a pinned one and never one in use; where all are, the new one is refused."""
    registry = registry_in(tmp_path, clock, limits=Limits(max_handles=3))
    handles = []
    for number in range(3):
        clock.now += 1
        handles.append(registry.register([number], pin=number == 0).id)
    with registry.use(handles[1]):
        clock.now += 1
        newest = registry.register([9]).id
        assert {facts.id for facts in registry.all()} == {handles[0], handles[1], newest}
        with registry.use(newest), pytest.raises(EngineError) as caught:
            registry.register([10])
        assert code_of(caught) == "registry_full"


def test_a_refused_registration_costs_no_other_prefix(tmp_path: Path, clock: Clock) -> None:
    """Neither where its pin is refused nor where too few can go: rows and files are there after a restart."""
    registry = registry_in(tmp_path, clock, limits=Limits(max_handles=3, max_bytes=2400))
    loose = registry.register(range(100)).id
    for first_id in (1, 2):
        registry.register(range(first_id, first_id + 200), pin=True)
    for ids, pin, code in ((range(7, 157), True, "pins_full"), (range(7, 257), False, "registry_full")):
        with pytest.raises(EngineError) as caught:
            registry.register(ids, pin=pin)
        assert code_of(caught) == code
        assert (tmp_path / "prefixes" / f"{loose}.i32").stat().st_size == 400
    registry.close()
    again = registry_in(tmp_path, clock)
    assert len(again.all()) == 3
    assert again.get(loose).token_ids.tolist() == [*range(100)]


def test_bytes_on_disk_are_bounded(tmp_path: Path, clock: Clock) -> None:
    """100 tokens in all: the third prefix of 40 sends the first one away, its file too."""
    registry = registry_in(tmp_path, clock, limits=Limits(max_bytes=400))
    for number in range(3):
        clock.now += 1
        registry.register(range(number, number + 40))
    assert len(registry.all()) == 2
    assert sum(path.stat().st_size for path in (tmp_path / "prefixes").glob("*.i32")) == 320


def test_what_is_not_held_in_memory_is_read_from_disk(tmp_path: Path, clock: Clock) -> None:
    """Room for one of two: both are there, with their ids and salts; one in use stays the same object."""
    registry = registry_in(tmp_path, clock, limits=Limits(max_held_bytes=400))
    first = registry.register(range(100), "kb")
    with registry.use(first.id, "kb"):
        registry.register(range(1, 101), "kb")
        assert registry.get(first.id, "kb") is first
    registry.register(range(2, 102), "kb")
    again = registry.get(first.id, "kb")
    assert again is not first
    assert (again.token_ids.tolist(), again.salt) == (list(range(100)), first.salt)


def test_sessions_take_what_came_by_them_only(registry: Registry) -> None:
    """Two chats on one document: it goes with the second; what was registered without a chat, or is pinned, stays."""
    shared = registry.register([1], session="a")
    registry.register([1], session="b")
    kept = registry.register([2], session="a")
    registry.register([2])
    pinned = registry.register([3], session="a", pin=True)
    assert registry.facts(shared.id).sessions == ("a", "b")
    assert registry.end_session("a") == []
    assert [gone.id for gone in registry.end_session("b")] == [shared.id]
    assert {facts.id for facts in registry.all()} == {kept.id, pinned.id}
    assert registry.register([1]).salt == shared.salt  # what the cache holds of it is found again


def test_all_is_there_again_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    """Ids, salts, lives, pins; the pinned first, then the most recently used; the expired are gone, files too."""
    before = registry_in(tmp_path, clock)
    made: list[Registered] = []
    for number, pin in enumerate([False, True, False, False]):
        clock.now += 1
        made.append(before.register([number] * 3, "kb", pin=pin, name=f"n{number}"))
    over = before.register([7], ttl_s=5)
    freed = before.register([8])
    before.free(freed.id)
    with before.use(made[0].id, "kb"):
        clock.now += 10
    before.close()
    after = registry_in(tmp_path, clock)
    order = after.by_last_use()
    assert [facts.name for facts in order] == ["n1", "n0", "n3", "n2"]
    assert [facts.hits for facts in order] == [0, 1, 0, 0]
    for registered in made:
        found = after.get(registered.id, "kb")
        assert (found.salt, found.token_ids.tolist()) == (registered.salt, registered.token_ids.tolist())
    assert not (tmp_path / "prefixes" / f"{over.id}.i32").exists()
    assert after.register([8]).salt != freed.salt


def test_a_smaller_pool_loosens_the_pins_that_it_cannot_bear(tmp_path: Path, clock: Clock) -> None:
    """The least recently used first, and only as many as it takes."""
    before = registry_in(tmp_path, clock)
    for number in range(4):
        clock.now += 1
        before.register(range(number, number + 100), pin=True)
    before.close()
    after = registry_in(tmp_path, clock, pool=Pool(600, 10, 400, 0.5))
    assert [facts.pinned for facts in after.all()] == [True, True, False, False]


@pytest.mark.parametrize("damage", ["short", "other ids", "missing", "database"])
def test_what_is_damaged_on_disk_is_dropped(tmp_path: Path, clock: Clock, damage: str) -> None:
    """It is as if it had never been registered; registering it again works."""
    before = registry_in(tmp_path, clock)
    handle = before.register([1, 2, 3]).id
    sound = before.register([4, 5, 6]).id
    before.close()
    file = tmp_path / "prefixes" / f"{handle}.i32"
    if damage == "short":
        file.write_bytes(b"\1\0\0\0")
    elif damage == "other ids":
        file.write_bytes(bytes(12))
    elif damage == "missing":
        file.unlink()
    else:
        (tmp_path / "prefixes" / "prefixes.sqlite").write_bytes(b"no database" * 100)
    after = registry_in(tmp_path, clock)
    with pytest.raises(EngineError) as caught:
        after.get(handle)
    assert code_of(caught) == "unknown_prefix"
    assert [facts.id for facts in after.all()] == ([] if damage == "database" else [sound])
    assert after.register([1, 2, 3]).token_ids.tolist() == [1, 2, 3]


def test_only_the_owner_may_read_what_is_stored(registry: Registry, tmp_path: Path) -> None:
    """Ids are documents."""
    handle = registry.register([1, 2]).id
    assert stat.S_IMODE((tmp_path / "prefixes").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "prefixes" / f"{handle}.i32").stat().st_mode) == 0o600


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_is_set_back_gives_no_longer_life(tmp_path: Path, clock: Clock, restarts: bool) -> None:
    """A minute is a minute from then on, and what is used now counts as used after what was used in its future."""
    registry = registry_in(tmp_path, clock)
    early = registry.register([1], ttl_s=60).id
    clock.now -= 1_000_000
    late = registry.register([2]).id
    if restarts:
        registry.close()
        registry = registry_in(tmp_path, clock)
    assert registry.expire() == []
    assert registry.facts(early).expires_at == clock.now + 60
    clock.now += 1
    with registry.use(late):
        pass
    assert [facts.id for facts in registry.all()] == [late, early]
    clock.now += 60
    assert [facts.id for facts in registry.expire()] == [early]


@pytest.mark.parametrize(
    ("column", "value"),
    [("sessions", "[half"), ("sessions", "5"), ("created", "soon"), ("ttl_s", "long"), ("num_tokens", b"\xff")],
)
def test_a_row_that_does_not_read_begins_the_registry_anew(
    tmp_path: Path, clock: Clock, column: str, value: object
) -> None:
    """The server starts all the same; what was registered is registered again by its owners."""
    registry = registry_in(tmp_path, clock)
    handle = registry.register([1, 2], "kb").id
    registry.close()
    with sqlite3.connect(tmp_path / "prefixes" / "prefixes.sqlite") as connection:
        connection.execute(f"UPDATE prefixes SET {column} = ?", (value,))
    connection.close()
    again = registry_in(tmp_path, clock)
    assert again.all() == []
    assert again.register([1, 2], "kb").id == handle
    assert [facts.id for facts in again.all()] == [handle]


def test_two_servers_on_one_folder_lose_nothing(tmp_path: Path, clock: Clock) -> None:
    """Each sees at once what the other registers, uses, pins and frees, and counts are added up."""
    one, other = registry_in(tmp_path, clock), registry_in(tmp_path, clock)
    handle = one.register(range(245), "kb", session="a", pin=True).id
    other.register(range(245), "kb", session="b")
    for registry in (one, other, other):
        with registry.use(handle, "kb"):
            pass
    facts = one.facts(handle, "kb")
    assert (facts.hits, facts.sessions, facts.pinned) == (3, ("a", "b"), True)
    other.register(range(1, 246), pin=True)
    with pytest.raises(EngineError) as caught:
        one.register([1], pin=True)
    assert code_of(caught) == "pins_full"
    old_salt = other.get(handle, "kb").salt
    one.free(handle, "kb")
    with pytest.raises(EngineError):
        other.get(handle, "kb")
    one.register(range(245), "kb")
    assert other.get(handle, "kb").salt == one.get(handle, "kb").salt != old_salt


@dataclass
class Life:
    """The model's idea of a prefix."""

    ttl_s: float | None
    renewed: float
    last_used: float
    pinned: bool
    kept: bool
    sessions: set[str]
    hits: int = 0
    salts_before: set[str | None] = field(default_factory=set)


class Lives(RuleBasedStateMachine):
    """Two servers share a folder and take turns; a plain dictionary says what has to come out."""

    @initialize()
    def start(self) -> None:
        self.stack = ExitStack()
        self.folder = Path(self.stack.enter_context(TemporaryDirectory()))
        self.clock = Clock()
        self.servers = [self.open(), self.open()]
        self.lives: dict[tuple[str, int], Life] = {}
        self.freed_salts: dict[tuple[str, int], set[str | None]] = {}

    def open(self) -> Registry:
        registry = registry_in(self.folder, self.clock)
        self.stack.callback(registry.close)
        return registry

    def teardown(self) -> None:
        self.stack.close()

    def ids(self, which: int) -> list[int]:
        return list(range(which, which + 45 * (which + 1)))

    def handle(self, key: tuple[str, int]) -> str:
        return prefix_id(key[0], self.ids(key[1]))

    def alive(self, life: Life) -> bool:
        return life.ttl_s is None or self.clock.now < life.renewed + life.ttl_s

    def living(self, key: tuple[str, int]) -> Life | None:
        life = self.lives.get(key)
        return life if life is not None and self.alive(life) else None

    def num_pinned(self, without: tuple[str, int]) -> int:
        return sum(
            POOL.in_blocks(len(self.ids(key[1])))
            for key, life in self.lives.items()
            if life.pinned and self.alive(life) and key != without
        )

    def may_pin(self, key: tuple[str, int]) -> bool:
        return self.num_pinned(key) + POOL.in_blocks(len(self.ids(key[1]))) <= POOL.most_pinned

    keys = st.tuples(st.sampled_from(["", "kb"]), st.integers(0, 5))
    server = st.integers(0, 1)
    session = st.sampled_from([None, "a", "b"])
    ttl = st.sampled_from([None, 5.0, 20.0])

    @rule(key=keys, server=server, ttl_s=ttl, pin=st.booleans(), session=session)
    def register(self, key: tuple[str, int], server: int, ttl_s: float | None, pin: bool, session: str | None) -> None:
        if pin and not self.may_pin(key):
            with pytest.raises(EngineError) as caught:
                self.servers[server].register(self.ids(key[1]), key[0], ttl_s=ttl_s, pin=True, session=session)
            assert code_of(caught) == "pins_full"
            return
        registered = self.servers[server].register(self.ids(key[1]), key[0], ttl_s=ttl_s, pin=pin, session=session)
        assert registered.id == self.handle(key)
        assert registered.salt not in self.freed_salts.get(key, set())
        now, life = self.clock.now, self.living(key)
        if life is None:
            self.lives[key] = Life(ttl_s, now, now, pin, session is None, {session} - {None})  # type: ignore[arg-type]
            return
        life.ttl_s = None if None in (life.ttl_s, ttl_s) else max(life.ttl_s or 0, ttl_s or 0)
        life.renewed = life.last_used = now
        life.pinned |= pin
        life.kept |= session is None
        life.sessions |= {session} - {None}  # type: ignore[arg-type]

    @rule(key=keys, server=server)
    def use(self, key: tuple[str, int], server: int) -> None:
        life = self.living(key)
        if life is None:
            with pytest.raises(EngineError), self.servers[server].use(self.handle(key), key[0]):
                pass
            return
        with self.servers[server].use(self.handle(key), key[0]) as registered:
            assert registered.token_ids.tolist() == self.ids(key[1])
        life.hits += 1
        life.renewed = life.last_used = self.clock.now

    @rule(key=keys, server=server, ttl_s=ttl, pin=st.sampled_from([None, True, False]))
    def patch(self, key: tuple[str, int], server: int, ttl_s: float | None, pin: bool | None) -> None:
        life = self.living(key)
        if life is None or (pin and not self.may_pin(key)):
            with pytest.raises(EngineError):
                self.servers[server].patch(self.handle(key), key[0], Change(True, ttl_s, pin))
            return
        self.servers[server].patch(self.handle(key), key[0], Change(True, ttl_s, pin))
        life.ttl_s, life.renewed = ttl_s, self.clock.now
        life.pinned = life.pinned if pin is None else pin

    @rule(key=keys, server=server)
    def free(self, key: tuple[str, int], server: int) -> None:
        if self.living(key) is None:
            with pytest.raises(EngineError):
                self.servers[server].free(self.handle(key), key[0])
            return
        freed = self.servers[server].free(self.handle(key), key[0])
        assert freed is not None
        self.freed_salts.setdefault(key, set()).add(freed.salt)
        del self.lives[key]

    @rule(server=server, session=st.sampled_from(["a", "b"]))
    def end_session(self, server: int, session: str) -> None:
        going = set()
        for key, life in list(self.lives.items()):
            if session in life.sessions:
                life.sessions.discard(session)
                if not life.sessions and not life.kept and not life.pinned:
                    going.add(self.handle(key))
                    del self.lives[key]
        assert {facts.id for facts in self.servers[server].end_session(session)} == going

    @rule(seconds=st.sampled_from([1.0, 4.0, 16.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(server=server)
    def expire(self, server: int) -> None:
        over = {key for key, life in self.lives.items() if not self.alive(life)}
        assert {facts.id for facts in self.servers[server].expire()} == {self.handle(key) for key in over}
        for key in over:
            del self.lives[key]

    @precondition(lambda self: self.lives)
    @rule(server=server)
    def restart(self, server: int) -> None:
        self.servers[server].close()
        self.servers[server] = self.open()
        for key in [key for key, life in self.lives.items() if not self.alive(life)]:
            del self.lives[key]

    @invariant()
    def both_servers_tell_the_same_truth(self) -> None:
        expected = {
            self.handle(key): (key[0], life.ttl_s, life.pinned, life.hits, tuple(sorted(life.sessions)), life.last_used)
            for key, life in self.lives.items()
            if self.alive(life)
        }
        for server in self.servers:
            found = server.all()
            assert {
                one.id: (one.namespace, one.ttl_s, one.pinned, one.hits, one.sessions, one.last_used) for one in found
            } == expected
            assert [one.last_used for one in found] == sorted((one.last_used for one in found), reverse=True)
            assert sum(POOL.in_blocks(one.num_tokens) for one in found if one.pinned) <= POOL.most_pinned


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("how", ["freed", "session"])
def test_what_is_freed_while_a_question_runs_on_it_stays_on_disk_until_its_end(
    registry: Registry, tmp_path: Path, how: str
) -> None:
    """The engine core reads the ids there, perhaps only now. The handle is gone at once, the file with the last use."""
    registered = registry.register([1, 2, 3], "kb", session="chat")
    file = tmp_path / "prefixes" / f"{registered.id}.i32"
    with registry.use(registered.id, "kb"):
        with registry.use(registered.id, "kb"):
            if how == "freed":
                registry.free(registered.id, "kb")
            else:
                registry.end_session("chat")
            assert registry.all() == []
        assert file.exists()
    assert not file.exists()
    registry.register([1, 2, 3], "kb")
    with registry.use(registered.id, "kb"):
        pass
    assert file.exists()


def test_a_full_disk_stops_no_question(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered can be read: only the use is not counted. Registering says what is wrong."""
    handle = registry.register([1, 2], "kb").id

    def full(*arguments: object, **named: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Rows, "renew", full)
    monkeypatch.setattr(Rows, "put", full)
    with registry.use(handle, "kb") as registered:
        assert registered.token_ids.tolist() == [1, 2]
    with pytest.raises(EngineError) as caught:
        registry.register([3], "kb")
    assert code_of(caught) == "state_unusable"
    assert registry.facts(handle, "kb").hits == 0


def test_what_another_model_registered_is_not_given_to_this_one(tmp_path: Path, clock: Clock) -> None:
    """Two servers on one folder: an id that a model does not have would bring its engine down. The other keeps it."""
    large, small = replace(POOL, vocabulary=1000), replace(POOL, vocabulary=100)
    theirs = registry_in(tmp_path, clock, pool=large)
    handle = theirs.register([5, 500], "kb").id
    ours = registry_in(tmp_path, clock, pool=small)
    for call in (lambda: ours.get(handle, "kb"), lambda: ours.use(handle, "kb").__enter__()):
        with pytest.raises(EngineError) as caught:
            call()
        assert code_of(caught) == "bad_request"
    assert theirs.get(handle, "kb").num_tokens == 2
    theirs.close()
    ours.close()


def test_a_file_that_somebody_removed_is_written_again_at_the_next_use(registry: Registry, tmp_path: Path) -> None:
    """The engine core reads it, and what is in memory here is of no use to it."""
    handle = registry.register([1, 2], "kb").id
    file = tmp_path / "prefixes" / f"{handle}.i32"
    file.unlink()
    with registry.use(handle, "kb"):
        assert np.fromfile(file, dtype="<i4").tolist() == [1, 2]
