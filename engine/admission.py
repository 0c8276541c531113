"""Decides when a question may go to the engine: at once on a warm prefix, after one read for all on a cold one.

    enter -> its prefix is warm, or nearly -------------------------------------------> first_token -> leave
          -> waits for one read (`reader`), in the order of `turns` --------------------^
          -> waits for room (`line`): never more prefixes in use than the pool holds ---^

Everything runs on one event loop. State changes only in calls that do not wait, so it is whole at every `await`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from engine.base import EngineError
from engine.belief import Belief
from engine.bridge import Bridge
from engine.documents import Documents, Question, WaitsFor
from engine.keepalive import KeepAlive
from engine.line import Line
from engine.pace import Pace
from engine.reader import Reader
from engine.registered import Registered
from engine.room import ANSWER_TOKENS, Room
from engine.turns import outranks
from engine.warm import Cause, Warming


@dataclass(frozen=True)
class Queue:
    """The door at one moment.

    Attributes:
        waiting_read, waiting_room: Questions that wait, by cause.
        running: Questions that went and have not left.
        reading: Id of the prefix that is being read now, and how far it is (0 to 1).
        hot_tokens: What running questions, their prefixes and the one being read may take of the pool.
        idle_pinned_tokens: Of pinned prefixes that are not among the hot ones.
        reads: Prefixes that were begun to be read in steps.
        joined: Questions that came while somebody else's question, or a warming, was on the same read.
        cancelled: Reads that nobody wanted any more.
        promoted: Warmings in the background that got a question.
        touched: Times that a pinned prefix was kept alive.
    """

    waiting_read: int
    waiting_room: int
    running: int
    reading: str | None
    reading_progress: float
    hot_tokens: int
    idle_pinned_tokens: int
    reads: int
    joined: int
    cancelled: int
    promoted: int
    touched: int


class Place:
    """A question's right to run, from `Admission.enter` until its block ends."""

    def __init__(self, admission: Admission, question: Question) -> None:
        self._admission = admission
        self._question = question

    @property
    def waited_for(self) -> WaitsFor | None:
        """What it waited for before it went; `room` if for nothing else."""
        return self._question.waited_for

    def first_token(self) -> None:
        """The engine gave a first token: the prefix is computed, and held. More calls do nothing."""
        self._admission.saw_first_token(self._question)


class Admission:
    """The door of one engine.

    Args:
        resident_tokens: What vLLM holds of a prefix; None where that is not known.
        pinned: The pinned prefixes now; their room is left to them, and they are touched before they are forgotten.
        stored_blocks: Blocks that vLLM stored since its start; None: not counted, nothing is touched.
        queues: The next step of a read waits in the engine while one runs.
    """

    def __init__(
        self,
        bridge: Bridge,
        resident_tokens: Callable[[Registered], int | None],
        *,
        pace: Pace,
        pinned: Callable[[], Iterable[Registered]] = tuple,
        stored_blocks: Callable[[], int] | None = None,
        queues: bool = False,
    ) -> None:
        self._room = Room(bridge)
        self._belief = Belief(
            resident_tokens, pool_tokens=self._room.pool_tokens, block_size=bridge.block_size, clock=_now
        )
        self._documents = Documents(pace, self._belief, self._room, pinned)
        self._keeper = KeepAlive(self._room, pinned, lambda: self._documents.hot_tokens, stored_blocks)
        self._line = Line(self._documents)
        self._reader = Reader(
            bridge, pace, self._belief, self._documents, self._line, self._keeper, self._revive, queues=queues
        )
        self._numbers = itertools.count()
        self._num_joined = self._num_promoted = 0
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def enter(
        self, registered: Registered, num_tail_tokens: int, request_id: str, num_answer_tokens: int = ANSWER_TOKENS
    ) -> AsyncIterator[Place]:
        """Waits until the question may go; leaving the block, however, gives its room back.

        Raises:
            EngineError: `does_not_fit` if it never could; what the engine said if its prefix could not be read.
        """
        question = self._arrive(registered, num_tail_tokens, request_id, num_answer_tokens)
        try:
            if not question.is_placed:
                question.go = asyncio.get_running_loop().create_future()
                await question.go
            yield Place(self, question)
        finally:
            self._line.leave(question)
            if question.is_placed:
                self._keeper.used(registered)
            self._reader.tidy(question.document)
            self._go_on()

    def saw_first_token(self, question: Question) -> None:
        """`Place.first_token` comes here."""
        if question.has_token or question not in question.document.placed:
            return
        self._line.saw_token(question)
        document = question.document
        self._belief.saw(document.registered, document.num_tokens)
        if document.grant is None:
            document.end_warming()
        if document.waiting:
            self._go_on()

    def warm(self, registered: Registered, cause: Cause) -> Warming:
        """Has a prefix read ahead of its questions, when no question needs the reader; returns at once.

        Raises:
            EngineError: `does_not_fit`.
        """
        self._room.refuse_what_never_fits(registered)
        document = self._documents.want(registered, next(self._numbers))
        if document.warming:
            if outranks(cause, document.warming.cause):
                document.warming.cause = cause
            return document.warming
        warming = document.warming = Warming(registered, cause, lambda: self._documents.progress(document))
        if not self._documents.missing(document):
            document.end_warming()
            self._reader.tidy(document)
        self._go_on()
        return warming

    def cancel(self, prefix_id: str) -> bool:
        """Gives up warming a prefix and aborts its step, unless questions wait for it; False if nobody warms it."""
        found = [document for document in self._documents if document.registered.id == prefix_id and document.warming]
        for document in found:
            if document.warming:
                document.warming.end("cancelled")
                document.warming = None
            self._reader.tidy(document)
        self._go_on()
        return bool(found)

    def keep_alive(self) -> None:
        """To be called now and then when vLLM has stored blocks: pinned prefixes are touched if it is time."""
        self._go_on()

    def snapshot(self) -> Queue:
        causes = [question.cause for question in self._line.waiting]
        read_now = self._reader.document
        return Queue(
            waiting_read=causes.count("read"),
            waiting_room=causes.count("room"),
            running=sum(len(document.placed) for document in self._documents),
            reading=read_now.registered.id if read_now else None,
            reading_progress=self._documents.progress(read_now) if read_now else 0.0,
            hot_tokens=self._documents.hot_tokens,
            idle_pinned_tokens=self._documents.idle_pinned_tokens(),
            reads=self._reader.num_reads,
            joined=self._num_joined,
            cancelled=self._reader.num_cancelled,
            promoted=self._num_promoted,
            touched=self._reader.num_touched,
        )

    async def close(self) -> None:
        """Stops reading, ends the warmings, turns away who waits; who runs may go on."""
        self._is_closed = True
        for question in self._line.waiting:
            self._line.turn_away(question, EngineError("engine_failed", "The engine stops: ask again when it is back."))
        for document in self._documents:
            self.cancel(document.registered.id)
            self._reader.tidy(document)
        await self._reader.close()

    def _arrive(
        self, registered: Registered, num_tail_tokens: int, request_id: str, num_answer_tokens: int
    ) -> Question:
        self._room.refuse_what_never_fits(registered, num_tail_tokens)
        if self._is_closed:
            raise EngineError("engine_failed", "The engine stops: ask again when it is back.")
        number = next(self._numbers)
        document = self._documents.want(registered, number)
        self._num_joined += bool(document.waiting or document.leader or document.grant)
        self._num_promoted += document.warming is not None and not document.waiting
        num_tokens = self._room.of_question(registered, num_tail_tokens, num_answer_tokens)
        question = Question(document, request_id, num_tokens, number, _now())
        self._line.join(question)
        self._go_on()
        return question

    def _revive(self, pinned: Registered) -> None:
        self.warm(pinned, "resumed")

    def _go_on(self) -> None:
        """Lets in who may go now, and has the reader read what is missing."""
        if not self._is_closed:
            self._reader.start(self._line.let_in())


def _now() -> float:
    return asyncio.get_running_loop().time()
