"""Decides which step of which cold prefix comes next: one at a time, chosen again after each.

A step begins when the questions that went have their first tokens, or have had the time of one step for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from engine.base import EngineError
from engine.belief import Belief
from engine.bridge import Bridge
from engine.documents import Document, Documents, Question
from engine.keepalive import KeepAlive
from engine.line import Line
from engine.pace import Pace
from engine.registered import Registered
from engine.turns import turn
from engine.warm import PRIORITY, Reading

_log = logging.getLogger("readonce")


class Reader:
    """Reads while there is something to read; no task is left when there is nothing.

    Args:
        revive: Called with a pinned prefix that was lost: it has to be read again.
        queues: See `Reading`.

    Attributes:
        document: What is being read at this moment.
        num_reads: Prefixes that were begun to be read.
        num_cancelled: Those that nobody wanted any more before they were through.
        num_touched: Times that a pinned prefix was kept alive.
    """

    def __init__(
        self,
        bridge: Bridge,
        pace: Pace,
        belief: Belief,
        documents: Documents,
        line: Line,
        keeper: KeepAlive,
        revive: Callable[[Registered], None],
        *,
        queues: bool = False,
    ) -> None:
        self._bridge = bridge
        self._pace = pace
        self._belief = belief
        self._documents = documents
        self._line = line
        self._keeper = keeper
        self._revive = revive
        self._queues = queues
        self._abandoning: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._step_task: asyncio.Task[None] | None = None
        self.document: Document | None = None
        self.num_reads = self.num_cancelled = self.num_touched = 0

    def start(self, oldest: Question | None = None) -> None:
        """Goes to work if there is any; `oldest` is what `Line.let_in` gave."""
        if self._task is None and (self._next(oldest) is not None or self._keeper.due() is not None):
            self._task = asyncio.get_running_loop().create_task(self._work(), name="readonce reader")

    def tidy(self, document: Document) -> None:
        """Forgets what nobody wants any more of a prefix, and aborts its read."""
        if document.waiting:
            return
        if document.grant == "questions":
            document.take_room_back()
            document.grant = "background" if self.document is document else None
        if document.warming:
            return
        if document.reading is not None:
            reading, document.reading = document.reading, None
            document.take_room_back()
            self.num_cancelled += 1
            if self.document is document and self._step_task is not None:
                self._step_task.cancel()
            else:
                self._abandon(reading)
        if not document.placed:
            self._documents.drop(document)

    async def close(self) -> None:
        """Aborts what is being read."""
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.wait({task})
        readings = [document.reading for document in self._documents if document.reading is not None]
        await asyncio.gather(*self._abandoning, *(reading.abandon() for reading in readings))

    async def _work(self) -> None:
        try:
            while True:
                await self._line.calm(self._pace.step_s)
                if (pinned := self._keeper.due()) is not None:
                    await self._touch(pinned)
                elif (document := self._next(self._line.let_in())) is not None:
                    await self._step(document)
                else:
                    return
        finally:
            self._task = None

    def _next(self, oldest: Question | None) -> Document | None:
        """The prefix whose next step is due."""
        now = asyncio.get_running_loop().time()
        wanted = [document for document in self._documents if document.is_wanted]
        for document in sorted(wanted, key=lambda one: turn(one, self._left_s(one), now)):
            if document.grant == "questions":
                return document
            own = document.waiting[0].num_tokens if document.waiting else 0
            if self._is_to_be_read(document) and self._documents.fits(document, own, oldest):
                return document
        return None

    def _left_s(self, document: Document) -> float:
        # What nobody asks about is not ordered by it, and there may be hundreds after a restart.
        return self._documents.left_s(document) if document.waiting else 0.0

    def _is_to_be_read(self, document: Document) -> bool:
        if document.reads_itself or document.leader:
            return False
        num_missing = self._documents.missing(document)
        if document.waiting:
            return num_missing > 0 and not self._documents.is_small(document, num_missing)
        if not num_missing:
            document.end_warming()
            self.tidy(document)
        return num_missing > 0

    async def _step(self, document: Document) -> None:
        document.grant_room()
        if document.reading is None:
            document.reading = Reading(self._bridge, self._pace, self._belief, document.registered, queues=self._queues)
            self.num_reads += 1
        if document.warming:
            document.warming.state = "reading"
        reading = document.reading
        alone = not any(one.placed for one in self._documents)
        step = asyncio.get_running_loop().create_task(reading.step(alone=alone), name="readonce step")
        self.document, self._step_task = document, step
        try:
            await asyncio.wait({step})
        except asyncio.CancelledError:
            step.cancel()
            await asyncio.wait({step})
            raise
        finally:
            self.document = self._step_task = None
            if document.grant == "background":
                document.take_room_back()
        error = None if step.cancelled() else step.exception()
        if document.reading is not reading:
            await reading.abandon()
            return  # nobody wants it any more; whatever the step came to
        if step.cancelled():
            self._fail(document, EngineError("engine_failed", "The engine gave up reading a prefix: ask again."))
        elif error is not None:
            await reading.abandon()
            self._fail(document, error)
        elif self._is_another_due(document):
            await reading.abandon()
        if document.reading is reading and reading.is_done:
            self._finish(document)
        self.tidy(document)

    def _is_another_due(self, document: Document) -> bool:
        """Whether another prefix's step comes next: this one's must not stand before it in the engine's queue."""
        following = self._next(None) if self._queues else None
        return following is not None and following is not document

    def _abandon(self, reading: Reading) -> None:
        task = asyncio.get_running_loop().create_task(reading.abandon())
        self._abandoning.add(task)
        task.add_done_callback(self._abandoning.discard)

    def _finish(self, document: Document) -> None:
        for other in self._documents:
            if other.number < document.number and other.is_wanted and not other.leader:
                other.num_overtaken += 1
        document.num_overtaken = 0
        document.end_warming()
        document.take_room_back()
        self._line.let_in_readers_of(document)

    def _fail(self, document: Document, error: BaseException) -> None:
        told = error if isinstance(error, Exception) else EngineError("engine_failed", repr(error))
        document.end_warming(told)
        document.take_room_back()
        if isinstance(error, EngineError) and error.code == "does_not_stay":
            # A question that computes all of it in one piece holds what it has computed.
            document.reads_itself = True
            _log.warning("%s", error.message)
            return
        for question in list(document.waiting):
            self._line.turn_away(question, told)

    async def _touch(self, pinned: Registered) -> None:
        """One token, all the rest cached."""
        document = self._documents.find(pinned)
        whole = self._belief.whole(pinned)
        try:
            if document is not None and document.is_hot:
                return  # it is in use; leaving makes it young
            if self._belief.cached(pinned) < whole:
                self._revive(pinned)
                return
            self.num_touched += 1
            await self._bridge.read(pinned, whole, PRIORITY, f"touch-{pinned.id}-{self.num_touched}")
            self._belief.saw(pinned, whole)
        except EngineError as error:
            _log.warning("the pinned prefix %s could not be kept alive: %s", pinned.id, error.message)
        finally:
            self._keeper.used(pinned)
