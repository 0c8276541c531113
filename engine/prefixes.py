"""Decides the life of a registered prefix: its handle, how long it lives, what makes room, what comes back."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy.typing as npt

from engine.base import EngineError, prefix_id
from engine.bounds import Limits, make_room
from engine.held import Held
from engine.pins import Pool, refuse_pin, refuse_unfitting, surplus_pins
from engine.registered import Registered, checked_ids, refuse_control_characters, refuse_foreign_ids
from engine.salts import Salts
from engine.shelf import Facts, Rows, Shelf, TokenIds

logger = logging.getLogger(__name__)

# A prefix whose life ends so soon is renewed before anything else: another server may be about to drop it.
_SOON_OVER_S = 60.0


@dataclass(frozen=True)
class Change:
    """What a PATCH asks for.

    Attributes:
        sets_ttl: Whether `ttl_s` counts; its time then begins now.
        pin: None leaves it as it is.
        session: One more session that it is bound to.
    """

    sets_ttl: bool = False
    ttl_s: float | None = None
    pin: bool | None = None
    session: str | None = None


class Registry:
    """The registered prefixes of a server. For one event loop; other servers may share the folder.

    Args:
        folder: See `Shelf`.
        salts: Derives a prefix's salt from its namespace and generation.
        pool: What the engine's cache holds.
        clock: Unix seconds.

    What came before is there again: expired and broken ones are dropped, and pins that the pool (it may be smaller than
    it was) can't bear any more are loosened, the least recently used first.
    """

    def __init__(
        self,
        folder: Path,
        salts: Salts,
        pool: Pool,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = Shelf(folder)
        self._salts = salts
        self.pool = pool
        self._limits = limits or Limits()
        self._clock = clock
        self._held: Held[Registered] = Held(self._limits.max_held_bytes)
        self._shelf.run(self._tidy)

    def register(
        self,
        token_ids: npt.ArrayLike,
        namespace: str = "",
        *,
        name: str = "",
        ttl_s: float | None = None,
        pin: bool = False,
        session: str | None = None,
    ) -> Registered:
        """Gives the handle of these ids in this namespace; where it exists, renews it.

        A renewed one lives as long as the longer of the two times, is pinned if either asked for it, and is bound to
        the session too. One that came without a session is kept whatever sessions end.

        Raises:
            EngineError: `bad_request`, `does_not_fit`, `pins_full`, `registry_full`, `state_unusable`.
        """
        ids = checked_ids(token_ids, self.pool.vocabulary)
        refuse_control_characters(namespace, session or "")
        refuse_unfitting(len(ids), self.pool)
        handle = prefix_id(namespace, ids)
        now = self._clock()

        def work(rows: Rows) -> Facts:
            known = self._alive(rows, handle)
            if known is None:
                facts = Facts(
                    id=handle, namespace=namespace, name=name, num_tokens=len(ids), ttl_s=ttl_s, pinned=False,
                    generation=rows.generation(handle), created=now, renewed=now, last_used=now, hits=0,
                    kept=session is None, sessions=_bound((), session),
                )  # fmt: skip
            else:
                facts = replace(
                    known, name=name or known.name, ttl_s=_longer(known.ttl_s, ttl_s), renewed=max(now, known.renewed),
                    last_used=max(now, known.last_used), kept=known.kept or session is None,
                    sessions=_bound(known.sessions, session),
                )  # fmt: skip
            if pin:
                facts = self._pinned(rows, facts)
            if known is None:
                make_room(rows, len(ids), self._limits, now, self._held.is_in_use)
            if known is None or not rows.has_ids(known):
                rows.write_ids(handle, ids)
            rows.put(facts)
            return facts

        facts = self._shelf.run(work)
        return self._hold(facts, ids)

    def get(self, handle: str, namespace: str = "") -> Registered:
        """The prefix itself. Counts as no use.

        Raises:
            EngineError: `unknown_prefix` where it is not there, or belongs to another namespace.
        """
        return self._load(self.facts(handle, namespace))

    def facts(self, handle: str, namespace: str = "") -> Facts:
        """Raises EngineError as `get`."""
        return self._shelf.run(lambda rows: self._known(rows, handle, namespace))

    def in_memory(self, facts: Facts) -> Registered | None:
        """The prefix where its ids are in memory."""
        return self._held.get(facts.id, facts.generation)

    def all(self, namespace: str | None = None) -> list[Facts]:
        """The living ones, the most recently used first; of all namespaces where None."""
        now = self._clock()
        found = self._shelf.run(Rows.all)
        return [facts for facts in reversed(found) if facts.is_alive(now) and namespace in (None, facts.namespace)]

    def pinned(self) -> list[Facts]:
        """The living pinned ones, the most recently used first."""
        now = self._clock()
        return [facts for facts in reversed(self._shelf.run(Rows.pinned)) if facts.is_alive(now)]

    def by_last_use(self) -> list[Facts]:
        """The living ones in the order in which they come back: pinned first, then the most recently used."""
        return sorted(self.all(), key=lambda facts: not facts.pinned)

    @contextmanager
    def use(self, handle: str, namespace: str = "", *, num_hits: int = 1) -> Iterator[Registered]:
        """The prefix for a question's time: its life is renewed at both ends, and nothing makes room by it meanwhile.

        Its ids stay on disk until then, also where it is freed: the engine core reads them there.

        Args:
            num_hits: How many uses it counts as; 0 for one that is no question.

        Raises:
            EngineError: As `get`.
        """

        def look(rows: Rows) -> tuple[Facts, bool]:
            facts = self._known(rows, handle, namespace)
            return facts, rows.has_ids(facts)

        def begin(rows: Rows) -> None:
            if held is not None and not rows.has_ids(facts):
                rows.write_ids(handle, held.token_ids)  # somebody removed the file that the engine core reads
            rows.renew(handle, self._clock(), num_hits=num_hits)

        def end(rows: Rows) -> None:
            rows.renew(handle, self._clock(), num_hits=0)
            if rows.get(handle) is None and not self._held.is_in_use(handle):
                rows.remove_ids(handle)  # freed meanwhile

        facts, has_ids = self._shelf.look(look)
        held = self._held.get(handle, facts.generation)
        if has_ids and (facts.expires_at is None or facts.expires_at - self._clock() > _SOON_OVER_S):
            _soon(lambda: self._renew(begin))  # the question is on its way by then
        else:
            self._renew(begin)
        registered = self._load(facts)
        self._held.begin(handle)
        try:
            yield registered
        finally:
            self._held.end(handle)
            self._renew(end)

    def _renew(self, work: Callable[[Rows], None]) -> None:
        """A full disk can be read: only the count is lost, and no question or answer is spoilt."""
        with suppress(EngineError):
            self._shelf.run(work)

    def patch(self, handle: str, namespace: str, change: Change) -> Facts:
        """Raises EngineError: `unknown_prefix`, `pins_full`, `state_unusable`."""
        refuse_control_characters(change.session or "")

        def work(rows: Rows) -> Facts:
            facts = self._known(rows, handle, namespace)
            if change.sets_ttl:
                facts = replace(facts, ttl_s=change.ttl_s, renewed=max(facts.renewed, self._clock()))
            if change.pin is not None:
                facts = self._pinned(rows, facts) if change.pin else replace(facts, pinned=False)
            facts = replace(facts, sessions=_bound(facts.sessions, change.session))
            rows.put(facts)
            return facts

        return self._shelf.run(work)

    def free(self, handle: str, namespace: str = "") -> Registered | None:
        """Forgets the handle; if the same ids come back, their salt is another one and nothing of now is found again.

        Returns what was freed, so that its blocks can be dropped; None where its ids could not be read any more.

        Raises:
            EngineError: `unknown_prefix`, `state_unusable`.
        """

        def work(rows: Rows) -> tuple[Facts, TokenIds | None]:
            facts = self._known(rows, handle, namespace)
            token_ids = rows.read_ids(facts)
            rows.turn_over(handle, secrets.token_hex(8))
            rows.delete(handle, keeps_ids=self._held.is_in_use(handle))
            return facts, token_ids

        facts, token_ids = self._shelf.run(work)
        registered = None if token_ids is None else self._hold(facts, token_ids)
        self._held.drop(handle)
        return registered

    def end_session(self, session: str) -> list[Facts]:
        """Unbinds a session everywhere; returns what went with it.

        A prefix that came by sessions only, and is not pinned, goes with its last one. Only its handle: another chat
        about the same document still finds what the cache holds.
        """

        def work(rows: Rows) -> list[Facts]:
            gone = []
            for facts in rows.all():
                if session not in facts.sessions:
                    continue
                left = tuple(other for other in facts.sessions if other != session)
                if left or facts.kept or facts.pinned:
                    rows.put(replace(facts, sessions=left))
                else:
                    rows.delete(facts.id, keeps_ids=self._held.is_in_use(facts.id))
                    gone.append(facts)
            return gone

        return self._forget(self._shelf.run(work))

    def expire(self) -> list[Facts]:
        """Drops the handles whose time is over, save those in use; returns them. Their blocks are left to the LRU."""

        def work(rows: Rows) -> list[Facts]:
            now = self._clock()
            rows.not_after(now)
            over = [facts for facts in rows.expired(now) if not self._held.is_in_use(facts.id)]
            for facts in over:
                rows.delete(facts.id)
            return over

        return self._forget(self._shelf.run(work))

    def close(self) -> None:
        self._shelf.close()

    def _known(self, rows: Rows, handle: str, namespace: str) -> Facts:
        facts = self._alive(rows, handle)
        if facts is None or facts.namespace != namespace:
            raise _unknown(handle, namespace)
        return facts

    def _alive(self, rows: Rows, handle: str) -> Facts | None:
        """One that is in use outlives its time."""
        facts = rows.get(handle)
        if facts is None or facts.is_alive(self._clock()) or self._held.is_in_use(handle):
            return facts
        return None

    def _pinned(self, rows: Rows, facts: Facts) -> Facts:
        now = self._clock()
        others = [one for one in rows.pinned() if one.id != facts.id and one.is_alive(now)]
        refuse_pin(facts.num_tokens, [one.num_tokens for one in others], self.pool)
        return replace(facts, pinned=True)

    def _load(self, facts: Facts) -> Registered:
        held = self._held.get(facts.id, facts.generation)
        if held is not None:
            return held
        token_ids = self._shelf.run(lambda rows: rows.read_ids(facts))
        if token_ids is None:
            logger.warning("The ids of the prefix %s can't be read any more; it is dropped.", facts.id)
            self._shelf.run(lambda rows: rows.delete(facts.id))
            self._held.drop(facts.id)
            raise _unknown(facts.id, facts.namespace)
        refuse_foreign_ids(token_ids, self.pool.vocabulary)  # a server of another model registered it
        return self._hold(facts, token_ids)

    def _hold(self, facts: Facts, token_ids: TokenIds) -> Registered:
        held = self._held.get(facts.id, facts.generation)
        if held is not None:
            return held
        salt = self._salts.salt_of(facts.namespace, facts.generation)
        registered = Registered(facts.id, facts.namespace, facts.name, token_ids, salt)
        self._held.put(facts.id, facts.generation, registered, token_ids.nbytes)
        return registered

    def _forget(self, gone: list[Facts]) -> list[Facts]:
        for facts in gone:
            self._held.drop(facts.id)
        return gone

    def _tidy(self, rows: Rows) -> None:
        now = self._clock()
        rows.not_after(now)
        for facts in rows.all():
            if not facts.is_alive(now) or not rows.has_ids(facts):
                rows.delete(facts.id)
        rows.remove_strays()
        for facts in surplus_pins(rows.pinned(), self.pool):
            logger.warning("The pool is too small by now for the pinned prefix %s; it is unpinned.", facts.id)
            rows.put(replace(facts, pinned=False))


def _bound(sessions: tuple[str, ...], session: str | None) -> tuple[str, ...]:
    return tuple(sorted({*sessions, session})) if session is not None else sessions


def _soon(work: Callable[[], None]) -> None:
    """On the event loop as soon as it is free; at once where there is none."""
    try:
        asyncio.get_running_loop().call_soon(work)
    except RuntimeError:
        work()


def _longer(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def _unknown(handle: str, namespace: str) -> EngineError:
    return EngineError(
        "unknown_prefix", f"No prefix {handle!r} is registered in the namespace {namespace!r}; register it (again)."
    )
