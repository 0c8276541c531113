"""The routes in vLLM's server, over the block rules: handles, answers, what is refused, what a hang-up does."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugin_parts import BLOCK_SIZE, MAX_MODEL_LEN, Call, Server, ask, call, serve
from starlette.applications import Starlette
from starlette.routing import Route
from tiny import write_tiny_tokenizer
from tokenizers import Tokenizer

from engine.base import EngineError, prefix_id
from engine.detokenize import Vocabulary
from engine.plugin import Plugin
from engine.routes_generate import gather_s
from engine.routes_wire import MOST_BYTES
from engine.view import CacheView

IDS = list(range(100, 140))  # five blocks
HANDLE = prefix_id("kb", IDS)
REGISTRATION = {"token_ids": IDS, "namespace": "kb", "name": "report", "warm": "no"}


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = write_tiny_tokenizer(tmp_path_factory.mktemp("tiny"))
    return Vocabulary(Tokenizer.from_file(str(folder / "tokenizer.json")))


@pytest.fixture
async def server(tmp_path: Path, vocabulary: Vocabulary) -> AsyncIterator[Server]:
    made = await serve(tmp_path, vocabulary)
    yield made
    made.parts.registry.close()


async def eventually(condition: Callable[[], bool]) -> None:
    """Lets the event loop run until it holds; a test that never gets there fails by its own timeout of turns."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came about")


async def test_registering_gives_the_handle_that_anybody_can_compute(server: Server) -> None:
    """As a list or as base64: the same handle, the same view; times are null where there are none."""
    status, view = await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    assert (status, view) == (
        200,
        {
            "id": HANDLE, "namespace": "kb", "name": "report", "num_tokens": 40, "resident_tokens": 0, "state": "cold",
            "pinned": False, "expires_at": None, "last_used": server.clock.now, "hits": 0, "sessions": [],
            "created": server.clock.now,
        },
    )  # fmt: skip
    packed = base64.b64encode(np.array(IDS, dtype="<i4").tobytes()).decode()
    again = {"token_ids_b64": packed, "namespace": "kb", "warm": "no"}
    assert await call(server.app, "POST", "/v1/prefixes", again) == (200, view)
    assert server.door.warmed == []


async def test_warm_now_answers_when_it_is_read(server: Server) -> None:
    """In the background it answers at once and says so; the default is the background."""
    _, view = await call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"warm": "now"})
    assert (view["state"], view["resident_tokens"], server.residency.num_confirmed) == ("warm", 40, 1)
    server.door.hold = True
    _, view = await call(server.app, "POST", "/v1/prefixes", {"token_ids": [*range(50)]})
    assert (view["state"], view["resident_tokens"]) == ("warming", 0)
    server.bridge.go.set()
    await eventually(lambda: server.bridge.read_ids == [HANDLE, view["id"]])
    assert [cause for _, cause in server.door.warmed] == ["registered", "registered"]


async def test_a_time_to_live_begins_when_what_is_waited_for_is_read(server: Server) -> None:
    """Ten seconds, and reading takes twenty: it is there, for ten more, and no question was counted."""
    server.door.hold = True
    made = Call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"warm": "now", "ttl_s": 10})
    await eventually(lambda: len(server.door.warmed) == 1)
    server.clock.now += 20
    server.plugin.handles().tick()
    server.bridge.go.set()
    await made.task
    assert made.status == 200
    _, view = await call(server.app, "GET", f"/v1/prefixes/{HANDLE}?namespace=kb")
    assert (view["state"], view["expires_at"], view["hits"]) == ("warm", server.clock.now + 10, 0)


async def test_an_answer_streams_ids_and_ends_with_a_receipt(server: Server) -> None:
    """The first is cold; the second finds the whole blocks of the prefix, as foreseen, and counts as a use."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    server.bridge.answers = [[11, 12, 13], [14]]
    first = await ask(server.app, HANDLE, namespace="kb", max_tokens=9, temperature=0.5, priority=-1)
    assert first[:-1] == [{"token_ids": [11]}, {"token_ids": [12]}, {"token_ids": [13]}]
    server.clock.now += 5
    second = await ask(server.app, HANDLE, namespace="kb")
    receipt = second[-1].pop("receipt")
    assert second == [{"token_ids": [14]}, {"finish_reason": "stop"}]
    assert receipt.pop("total_ms") >= receipt.pop("first_token_ms") > 0
    assert receipt == {
        "prompt_tokens": 41, "resident_tokens": 40, "cached_tokens": 40, "predicted_cached_tokens": 40,
        "output_tokens": 1, "queue_ms": 250.0, "prefix": HANDLE, "waited_for": None,
    }  # fmt: skip
    assert (first[-1]["receipt"]["cached_tokens"], first[-1]["receipt"]["resident_tokens"]) == (0, 0)
    assert server.residency.settled == [(0, 0, [11, 12, 13]), (40, 40, [14])]
    assert [place.num_first_tokens for place in server.door.places] == [1, 1]
    assert (server.bridge.sampled[0].max_tokens, server.bridge.sampled[0].priority) == (9, -1)
    assert [seen.warm for seen in server.metrics.seen] == [False, True]
    _, view = await call(server.app, "GET", f"/v1/prefixes/{HANDLE}?namespace=kb")
    assert (view["hits"], view["last_used"], view["state"]) == (2, server.clock.now, "warm")
    assert server.door.num_inside == 0


async def test_words_come_where_they_are_asked_for(server: Server, vocabulary: Vocabulary) -> None:
    """Three tokens make one character: its word comes with the third."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    ids = vocabulary.tokenizer.encode("a文").ids
    server.bridge.answers = [list(ids)]
    *pieces, end = await ask(server.app, HANDLE, namespace="kb", text=True)
    assert [piece["token_ids"] for piece in pieces] == [[one] for one in ids]
    assert [piece.get("text") for piece in pieces] == ["a", None, None, "文"]
    assert end["finish_reason"] == "stop"


async def test_a_stop_string_ends_the_answer_and_aborts_it(server: Server, vocabulary: Vocabulary) -> None:
    """The words end before it, and the engine draws nothing more; without `text` it is looked for all the same."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    server.bridge.answers = [[*vocabulary.tokenizer.encode("ab.\n\ncd").ids, "pause", 9]]
    *pieces, end = await ask(server.app, HANDLE, namespace="kb", stop=["\n\n"])
    assert "".join(piece.get("text", "") for piece in pieces) == "ab."
    assert end["finish_reason"] == "stop"
    assert server.bridge.aborted == [HANDLE]


async def test_hanging_up_aborts_in_the_engine(server: Server) -> None:
    """In the middle of an answer and while it waits for the first token; the door and the registry are free again."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    server.bridge.answers = [[11, "pause", 12], ["pause", 11]]
    for num_events in (1, 0):
        made = Call(server.app, "POST", f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [5], "namespace": "kb"})
        await made.until(num_events)
        await eventually(lambda: server.door.num_inside == 1)
        made.hang_up()
        await made.task
        assert server.door.num_inside == 0
        assert server.plugin.questions().num_live == 0
    assert server.bridge.aborted == [HANDLE, HANDLE]
    await call(server.app, "PATCH", f"/v1/prefixes/{HANDLE}", {"namespace": "kb", "ttl_s": 5})
    server.clock.now += 6
    server.plugin.handles().tick()
    assert (await call(server.app, "GET", "/v1/prefixes"))[1] == {"prefixes": []}


async def test_an_error_after_the_start_is_an_event(server: Server) -> None:
    """Before the first token it is a status."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    failure = EngineError("engine_failed", "It died.")
    server.bridge.answers = [[11, failure, 12], [failure]]
    *_, last = await ask(server.app, HANDLE, namespace="kb")
    assert last == {"error": {"code": "engine_failed", "message": "It died."}}
    answer = await call(server.app, "POST", f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [5], "namespace": "kb"})
    assert answer == (503, {"error": {"code": "engine_failed", "message": "It died."}})


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/prefixes/{}?namespace=other", None),
        ("GET", "/v1/prefixes/{}", None),
        ("PATCH", "/v1/prefixes/{}", {"namespace": "other", "pin": True}),
        ("DELETE", "/v1/prefixes/{}", {"namespace": "other"}),
        ("DELETE", "/v1/prefixes/{}?namespace=other", None),
        ("POST", "/v1/prefixes/{}/generate", {"namespace": "other", "token_ids": [1]}),
        ("POST", "/v1/prefixes/{}/generate", {"token_ids": [1]}),
    ],
)
async def test_another_namespace_finds_nothing(server: Server, method: str, path: str, body: Any) -> None:
    """The same answer as for a handle that there never was; the prefix is untouched."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    status, answer = await call(server.app, method, path.format(HANDLE), body)
    assert (status, answer["error"]["code"]) == (404, "unknown_prefix")
    never = "0" * 32
    _, same = await call(server.app, method, path.format(never), body)
    assert same["error"]["message"] == answer["error"]["message"].replace(HANDLE, never)
    assert not server.parts.registry.facts(HANDLE, "kb").pinned


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/prefixes", REGISTRATION | {"cache_salt": "x"}, "cache_salt"),
        ("/v1/prefixes", REGISTRATION | {"token_ids": None}, "token_ids_b64"),
        ("/v1/prefixes", REGISTRATION | {"token_ids": [-1]}, "token_ids"),
        ("/v1/prefixes", REGISTRATION | {"token_ids": [1000]}, "0 to 999"),
        ("/v1/prefixes", REGISTRATION | {"token_ids": []}, "one token id"),
        ("/v1/prefixes", {"token_ids_b64": "AAA"}, "base64"),
        ("/v1/prefixes", {"token_ids_b64": "AAAA"}, "int32"),
        ("/v1/prefixes", REGISTRATION | {"ttl_s": 0}, "ttl_s"),
        ("/v1/prefixes", REGISTRATION | {"warm": "soon"}, "warm"),
        ("/v1/prefixes", REGISTRATION | {"namespace": "a\0b"}, "control"),
        ("/v1/prefixes", b"{", "does not read"),
        (f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [1], "namespace": "kb", "cache_salt": "x"}, "cache_salt"),
        (f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [], "namespace": "kb"}, "one token id"),
        (f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [1000], "namespace": "kb"}, "0 to 999"),
        (f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [1], "max_tokens": 0}, "max_tokens"),
        (f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [1], "min_tokens": 9, "max_tokens": 3}, "min_tokens"),
        (f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [1], "stop": [""]}, "stop"),
    ],
)
async def test_what_is_not_understood_is_refused(server: Server, path: str, body: Any, said: str) -> None:
    """A salt above all: it is made here, and nobody can bring one. The sentence names the field."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    status, answer = await call(server.app, "POST", path, body)
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert said in answer["error"]["message"]
    assert server.bridge.sampled == []
    assert len(server.parts.registry.all()) == 1


@pytest.mark.parametrize("path", ["/v1/prefixes", f"/v1/prefixes/{HANDLE}/generate"])
@pytest.mark.parametrize("tells_length", [True, False])
async def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    server: Server, path: str, tells_length: bool
) -> None:
    """By its length where that is told, so that nothing is read; else as soon as too much came."""
    piece = b" " * 2**20
    headers = [(b"content-length", b"%d" % (100 * len(piece)))] if tells_length else []
    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": headers, "root_path": "", "scheme": "http", "app": server.app,
    }  # fmt: skip
    read, sent = [], []

    async def receive() -> dict[str, Any]:
        read.append(piece)
        return {"type": "http.request", "body": piece, "more_body": len(read) < 100}

    async def send(message: Any) -> None:
        sent.append(message)

    await server.app(scope, receive, send)
    assert sent[0]["status"] == 413
    assert b"too_large" in sent[1]["body"]
    assert len(read) == (0 if tells_length else MOST_BYTES // len(piece) + 1)


async def test_a_body_that_breaks_off_changes_nothing(server: Server) -> None:
    """The client hung up in the middle of it."""
    for path in ("/v1/prefixes", f"/v1/prefixes/{HANDLE}/generate"):
        made = Call(server.app, "POST", path, b'{"token_ids": [1]', breaks_off=True)
        await made.task
    assert server.parts.registry.all() == []
    assert server.bridge.sampled == []


async def test_what_does_not_fit_is_refused_with_the_numbers(server: Server) -> None:
    """A prefix as long as the context, and a question that fills the rest."""
    status, answer = await call(server.app, "POST", "/v1/prefixes", {"token_ids": [1] * MAX_MODEL_LEN})
    assert (status, answer["error"]["code"]) == (413, "does_not_fit")
    assert "400 tokens" in answer["error"]["message"]
    _, view = await call(server.app, "POST", "/v1/prefixes", {"token_ids": [1] * (MAX_MODEL_LEN - 2), "warm": "no"})
    path = f"/v1/prefixes/{view['id']}/generate"
    status, answer = await call(server.app, "POST", path, {"token_ids": [1, 2]})
    assert (status, answer["error"]["code"]) == (413, "prompt_too_long")
    assert server.bridge.sampled == []


async def test_pins_beyond_the_share_are_refused(server: Server) -> None:
    """A conflict; the handle stays as it was."""
    await call(server.app, "POST", "/v1/prefixes", {"token_ids": [1] * 392, "pin": True, "warm": "no"})
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    status, answer = await call(server.app, "PATCH", f"/v1/prefixes/{HANDLE}", {"namespace": "kb", "pin": True})
    assert (status, answer["error"]["code"]) == (409, "pins_full")
    assert [registered.num_tokens for registered in server.parts.pinned] == [392]


async def test_a_freed_prefix_is_cold_when_it_comes_back(server: Server) -> None:
    """Its reading is called off, its blocks are dropped, its salt is another one."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"warm": "now", "pin": True})
    answer = await call(server.app, "DELETE", f"/v1/prefixes/{HANDLE}", {"namespace": "kb"})
    assert answer == (200, {"id": HANDLE, "dropped_blocks": 3})
    assert (server.bridge.forgotten, server.door.cancelled, server.parts.pinned) == ([HANDLE], [HANDLE], [])
    assert (await call(server.app, "GET", f"/v1/prefixes/{HANDLE}?namespace=kb"))[0] == 404
    _, view = await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    assert (view["resident_tokens"], view["state"]) == (0, "cold")


async def test_patch_changes_what_is_given(server: Server) -> None:
    """A time, null for ever, a pin, a session, reading ahead; nothing else moves."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    path = f"/v1/prefixes/{HANDLE}"
    _, view = await call(server.app, "PATCH", path, {"namespace": "kb", "ttl_s": 60, "pin": True})
    assert (view["expires_at"], view["pinned"]) == (server.clock.now + 60, True)
    _, view = await call(server.app, "PATCH", path, {"namespace": "kb", "session": "chat", "warm": "now"})
    assert (view["expires_at"], view["pinned"], view["sessions"]) == (server.clock.now + 60, True, ["chat"])
    assert (view["state"], server.door.warmed) == ("warm", [(HANDLE, "selected")])
    _, view = await call(server.app, "PATCH", path, {"namespace": "kb", "ttl_s": None, "pin": False})
    assert (view["expires_at"], view["pinned"]) == (None, False)


async def test_a_sessions_end_frees_what_came_by_it(server: Server) -> None:
    """By its name, whatever stands in it; the blocks stay for the next chat."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"session": "chat/1 ü", "warm": "now"})
    answer = await call(server.app, "DELETE", "/v1/sessions/chat/1 ü")
    assert answer == (200, {"session": "chat/1 ü", "freed": [HANDLE]})
    assert server.bridge.forgotten == []
    _, view = await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    assert view["state"] == "warm"


async def test_part_of_a_prefix_can_be_resident(server: Server) -> None:
    """Two prefixes of a namespace begin alike: reading one makes the other partial; another namespace sees nothing."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"warm": "now"})
    other = IDS[: 2 * BLOCK_SIZE] + [1] * 30
    _, view = await call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"token_ids": other})
    assert (view["state"], view["resident_tokens"]) == ("partial", 16)
    _, view = await call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"namespace": "kb2"})
    assert (view["state"], view["resident_tokens"]) == ("cold", 0)


async def test_the_cache_tells_all(server: Server) -> None:
    """Pool, pins, hit rate, predictions, who waits, what is on, each prefix; it reads back as a CacheView."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"pin": True})
    for _ in range(2):
        await ask(server.app, HANDLE, namespace="kb")
    status, answer = await call(server.app, "GET", "/v1/cache")
    view = CacheView.from_json(answer)
    assert status == 200
    assert (view.pool_tokens, view.block_size, view.instance, view.pinned_tokens) == (800, 8, "i1", 40)
    assert (view.queries_tokens, view.hits_tokens, answer["hit_rate"]) == (82, 40, 40 / 82)
    assert (view.predictions, view.wrong_predictions, view.resident_tokens) == (2, 0, 40)
    assert (view.queue.read, view.queue.room, view.reads, view.joined_questions, view.hot_tokens) == (0, 2, 5, 4, 16)
    assert answer["features"] == {"core": True, "attention": False, "events": True}
    assert [(one.id, one.hits, one.state) for one in view.prefixes] == [(HANDLE, 2, "warm")]
    assert server.plugin.view() == view


async def test_what_was_read_for_the_question_itself_is_no_hit(server: Server) -> None:
    """The engine finds it in its cache all the same: only what was there when the question came was reused."""
    _, view = await call(server.app, "POST", "/v1/prefixes", REGISTRATION)
    server.door.waited_for = "read"
    registered = server.parts.registry.get(view["id"], "kb")
    enter = server.door.enter

    @asynccontextmanager
    async def reading_first(*arguments: Any) -> AsyncIterator[Any]:
        await server.bridge.read(registered, 40, 10, "r")
        async with enter(*arguments) as place:
            yield place

    server.door.enter = reading_first  # type: ignore[method-assign]
    receipt = (await ask(server.app, HANDLE, namespace="kb"))[-1]["receipt"]
    assert (receipt["cached_tokens"], receipt["resident_tokens"], receipt["waited_for"]) == (40, 0, "read")
    assert (server.plugin.view().queries_tokens, server.plugin.view().hits_tokens) == (41, 0)
    assert (receipt["predicted_cached_tokens"], server.residency.awaited_reads) == (40, [HANDLE])


async def test_after_a_restart_all_come_back_in_order_of_use(tmp_path: Path, vocabulary: Vocabulary) -> None:
    """Pinned first, then the most recently used, as many as the pool holds; what is evicted first is the oldest."""
    before = await serve(tmp_path, vocabulary)
    handles = []
    for number in range(5):
        before.clock.now += 1
        body = {"token_ids": [number] * 200, "pin": number == 1, "warm": "no"}
        handles.append((await call(before.app, "POST", "/v1/prefixes", body))[1]["id"])
    before.clock.now += 1
    await ask(before.app, handles[2])
    before.parts.registry.close()
    after = await serve(tmp_path, vocabulary, before.clock)
    order = [handles[1], handles[2], handles[4]]  # 600 of 720 tokens: no room for a fourth
    await eventually(lambda: len(after.bridge.read_ids) == 6)
    assert after.door.warmed == [(handle, "restarted") for handle in order]
    assert after.bridge.read_ids == [*order, *reversed(order)]
    _, answer = await call(after.app, "GET", "/v1/prefixes")
    assert {one["id"]: one["state"] for one in answer["prefixes"]} == {
        handle: "warm" if handle in order else "cold" for handle in handles
    }
    after.parts.registry.close()


async def test_expired_handles_go_with_a_tick(server: Server) -> None:
    """Their reading is called off; the pinned ones are kept alive meanwhile."""
    await call(server.app, "POST", "/v1/prefixes", REGISTRATION | {"ttl_s": 10, "pin": True})
    server.clock.now += 11
    assert (await call(server.app, "GET", f"/v1/prefixes/{HANDLE}?namespace=kb"))[0] == 404
    server.plugin.handles().tick()
    assert (server.door.cancelled, server.parts.pinned, server.door.num_kept_alive) == ([HANDLE], [], 1)


async def test_a_server_without_an_engine_says_so() -> None:
    """One that only renders prompts has the routes all the same."""
    plugin, app = Plugin(), Starlette()
    plugin.attach_router(app)
    await plugin.init_state(None, app.state, None)
    for method, path, body in [
        ("GET", "/v1/cache", None), ("POST", "/v1/prefixes", REGISTRATION),
        ("POST", f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [1]}),
    ]:  # fmt: skip
        status, answer = await call(app, method, path, body)
        assert (status, answer["error"]["code"]) == (503, "no_engine")


def test_a_question_is_compared_with_our_routes_first() -> None:
    """vLLM has dozens of its own, each a regular expression; none of them is lost."""
    theirs = Route("/v1/completions", lambda request: None)
    app = Starlette(routes=[theirs])
    Plugin().attach_router(app)
    first, *_, last = app.router.routes
    assert (getattr(first, "path", ""), last) == ("/v1/prefixes/{id}/generate", theirs)


async def test_a_server_whose_state_cannot_be_used_serves_all_the_same(tmp_path: Path, vocabulary: Vocabulary) -> None:
    """vLLM's own routes are not ours to take down: ours say what is wrong with the folder."""
    (tmp_path / "file").write_text("no folder")

    async def opened(engine_client: object) -> Any:
        return await serve(tmp_path / "file", vocabulary)

    plugin, app = Plugin(opened), Starlette()
    plugin.attach_router(app)
    await plugin.init_state(object(), app.state, None)
    for method, path, body in [
        ("GET", "/v1/cache", None), ("POST", "/v1/prefixes", REGISTRATION),
        ("POST", f"/v1/prefixes/{HANDLE}/generate", {"token_ids": [1]}),
    ]:  # fmt: skip
        status, answer = await call(app, method, path, body)
        assert (status, answer["error"]["code"]) == (503, "state_unusable")
        assert str(tmp_path / "file") in answer["error"]["message"]


def test_many_streams_gather_what_one_gives_at_once() -> None:
    """One stream waits for nothing, 128 for 40 ms; what all write a second is bounded."""
    assert gather_s(1) == 0
    assert gather_s(128) == pytest.approx(0.04)
    assert gather_s(10_000) == 0.2
    assert all(num_live / gather_s(num_live) <= 3_300 for num_live in range(64, 129))
