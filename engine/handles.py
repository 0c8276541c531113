"""Decides what each call about a handle does: the registry remembers, the door reads ahead, the engine forgets."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Literal

from engine.base import EngineError
from engine.parts import Cause, Parts, Warming
from engine.prefixes import Change
from engine.questions import Questions
from engine.registered import Registered
from engine.shelf import Facts
from engine.view import CacheView, FirstTokens, PrefixView, Queue, State

Warm = Literal["now", "background", "no"]

TICK_S = 5.0
_POOL_SHARE = 0.9  # of the pool is filled at a restart; the rest is for answers
_READ_AHEAD_PRIORITY = 10
# What is not in memory has to be read and hashed before it can be said how much of it is resident.
_MOST_LOADED_FOR_A_LIST = 32

logger = logging.getLogger(__name__)


class Handles:
    """The handles of one server.

    Args:
        questions: Knows which prefixes were read in this life, and what its questions found.
    """

    def __init__(self, parts: Parts, questions: Questions) -> None:
        self._parts = parts
        self._questions = questions
        self._warmings: dict[str, Warming] = {}
        self.refresh_pinned()

    async def register(
        self,
        token_ids: object,
        namespace: str,
        name: str,
        ttl_s: float | None,
        pin: bool,
        session: str | None,
        warm: Warm,
    ) -> PrefixView:
        """Raises EngineError: what `Registry.register` raises, and with `now` what reading it raises."""
        registered = self._parts.registry.register(
            token_ids,  # type: ignore[arg-type]  # checked there
            namespace,
            name=name,
            ttl_s=ttl_s,
            pin=pin,
            session=session,
        )
        self.refresh_pinned()
        await self._warm(registered, warm, "registered")
        return self.look(registered.id, namespace)

    def look(self, handle: str, namespace: str) -> PrefixView:
        facts = self._parts.registry.facts(handle, namespace)
        return self._view_of(facts, self._parts.registry.get(handle, namespace))

    def look_all(self, namespace: str | None) -> tuple[PrefixView, ...]:
        """The most recently used first."""
        views = []
        num_loaded = 0
        for facts in self._parts.registry.all(namespace):
            registered = self._parts.registry.in_memory(facts)
            if registered is None and num_loaded < _MOST_LOADED_FOR_A_LIST:
                num_loaded += 1
                try:
                    registered = self._parts.registry.get(facts.id, facts.namespace)
                except EngineError:
                    continue  # freed meanwhile by another server, or unreadable
            views.append(self._view_of(facts, registered))
        return tuple(views)

    async def change(self, handle: str, namespace: str, change: Change, warm: Warm) -> PrefixView:
        self._parts.registry.patch(handle, namespace, change)
        self.refresh_pinned()
        await self._warm(self._parts.registry.get(handle, namespace), warm, "selected")
        return self.look(handle, namespace)

    async def free(self, handle: str, namespace: str) -> int:
        """Returns how many blocks the engine dropped at once; others are never found again and make room first."""
        freed = self._parts.registry.free(handle, namespace)
        self._gone(handle)
        self.refresh_pinned()
        return 0 if freed is None else await self._parts.bridge.forget(freed)

    def end_session(self, session: str) -> tuple[str, ...]:
        """Returns the handles that went with it."""
        gone = self._parts.registry.end_session(session)
        for facts in gone:
            self._gone(facts.id)
        return tuple(facts.id for facts in gone)

    def view(self) -> CacheView:
        """The cache at this moment."""
        parts, counted = self._parts, self._questions
        queued, pool, residency = parts.door.snapshot(), parts.registry.pool, parts.residency
        pinned_tokens = sum(pool.in_blocks(registered.num_tokens) for registered in parts.pinned)
        pinned_in_use_tokens = pinned_tokens - queued.idle_pinned_tokens
        is_known = residency.why_unknown is None
        return CacheView(
            pool_tokens=pool.num_tokens,
            block_size=pool.block_size,
            instance=parts.instance,
            resident_tokens=None if residency.resident_blocks is None else residency.resident_blocks * pool.block_size,
            pinned_tokens=pinned_tokens,
            hot_tokens=max(0, queued.hot_tokens - pinned_in_use_tokens),
            queries_tokens=counted.queries_tokens,
            hits_tokens=counted.hits_tokens,
            evicted_blocks=residency.evicted_blocks if is_known else None,
            predictions=residency.predictions,
            wrong_predictions=residency.wrong_predictions,
            uncertain_predictions=residency.uncertain_predictions,
            reads=queued.reads,
            joined_questions=queued.joined,
            live_streams=counted.num_live,
            queue=Queue(queued.waiting_read, queued.waiting_room),
            features=parts.features,
            first_token=parts.metrics.first_tokens if parts.metrics is not None else FirstTokens(),
            prefixes=self.look_all(None),
        )

    async def come_back(self) -> None:
        """After a start: reads what was registered before, pinned first, then the most recently used, one by one.

        As many as the pool holds. At the end each is touched once, the least recently used first: what the engine
        evicts first is then what was not asked for the longest.
        """
        registry = self._parts.registry
        room = registry.pool.num_tokens * _POOL_SHARE
        back: list[Facts] = []
        for facts in registry.by_last_use():
            if registry.pool.in_blocks(facts.num_tokens) > room:
                continue
            room -= registry.pool.in_blocks(facts.num_tokens)
            try:
                await self._start_warming(registry.get(facts.id, facts.namespace), "restarted").wait()
                back.append(facts)
            except EngineError as error:
                logger.warning("The prefix %s was not read again: %s", facts.id, error.message)
        for number, facts in enumerate(reversed(back)):
            try:
                registered = registry.get(facts.id, facts.namespace)
                if registry.facts(facts.id, facts.namespace).hits == facts.hits and len(back) > 1:
                    whole = registered.num_tokens // registry.pool.block_size * registry.pool.block_size
                    request_id = f"back-{facts.id}-{number}"
                    await self._parts.bridge.read(registered, max(1, whole), _READ_AHEAD_PRIORITY, request_id)
            except EngineError as error:
                logger.warning("The prefix %s was not touched: %s", facts.id, error.message)

    async def keep(self) -> None:
        """For ever: lets expired handles go, follows what other servers pinned, keeps the pinned alive."""
        while True:
            await asyncio.sleep(TICK_S)
            try:
                self.tick()
            except EngineError as error:
                logger.warning("%s", error.message)

    def tick(self) -> None:
        for facts in self._parts.registry.expire():
            self._gone(facts.id)
        self._warmings = {handle: warming for handle, warming in self._warmings.items() if not warming.has_ended}
        self.refresh_pinned()
        self._parts.door.keep_alive()

    def refresh_pinned(self) -> None:
        registry = self._parts.registry
        pinned = []
        for facts in registry.pinned():
            with suppress(EngineError):  # unreadable, or freed just now: then it is none
                pinned.append(registry.get(facts.id, facts.namespace))
        self._parts.pinned[:] = pinned

    async def _warm(self, registered: Registered, warm: Warm, cause: Cause) -> None:
        if warm == "no":
            return
        warming = self._start_warming(registered, cause)
        if warm == "now":
            # Its time to live may be shorter than its reading: it begins when whoever waits can use it.
            with self._parts.registry.use(registered.id, registered.namespace, num_hits=0):
                await warming.wait()
            await self._parts.residency.confirm()  # whoever waited is told what is so

    def _start_warming(self, registered: Registered, cause: Cause) -> Warming:
        warming = self._warmings[registered.id] = self._parts.door.warm(registered, cause)
        return warming

    def _gone(self, handle: str) -> None:
        self._warmings.pop(handle, None)
        self._parts.door.cancel(handle)

    def _view_of(self, facts: Facts, registered: Registered | None) -> PrefixView:
        resident = None if registered is None else self._parts.residency.resident_tokens(registered)
        return PrefixView(
            id=facts.id,
            namespace=facts.namespace,
            name=facts.name,
            num_tokens=facts.num_tokens,
            resident_tokens=resident,
            state=self._state(facts, registered, resident),
            pinned=facts.pinned,
            expires_at=facts.expires_at,
            last_used=facts.last_used,
            hits=facts.hits,
            sessions=facts.sessions,
            created=facts.created,
        )

    def _state(self, facts: Facts, registered: Registered | None, resident: int | None) -> State:
        """Where residency is not known: whether it was read in this life."""
        warming = self._warmings.get(facts.id)
        if warming is not None and not warming.has_ended:
            return "warming"
        if resident is None:
            was_read = registered is not None and self._questions.was_read(registered)
            return "warm" if was_read or (warming is not None and warming.progress >= 1) else "cold"
        size = self._parts.registry.pool.block_size
        if resident >= facts.num_tokens // size * size:
            return "warm"
        return "partial" if resident else "cold"
