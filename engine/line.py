"""Decides which waiting questions go now.

The aged go first, then those whose prefix is in use already (they take the least room), then the others, each as they
came. While the oldest aged one waits, the others may take only the room that it leaves.
"""

from __future__ import annotations

import asyncio
import contextlib

from engine.documents import Document, Documents, Question
from engine.turns import is_aged


class Line:
    """The questions that may not go yet, and a count of those that went and have no token yet."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._waiting: dict[Question, None] = {}
        self._num_tokenless = 0
        self._calm = asyncio.Event()

    @property
    def waiting(self) -> list[Question]:
        """As they came."""
        return list(self._waiting)

    def join(self, question: Question) -> None:
        question.document.waiting.append(question)
        self._waiting[question] = None

    def leave(self, question: Question) -> None:
        """Whether it waited or ran; a second time does nothing."""
        document = question.document
        if question in self._waiting:
            self._step_out(question)
        elif question in document.placed:
            document.placed.remove(question)
            if not question.has_token:
                self._count_down()
            if document.leader is question:
                document.leader = None

    def saw_token(self, question: Question) -> None:
        question.has_token = True
        self._count_down()
        if question.document.leader is question:
            question.document.leader = None

    def turn_away(self, question: Question, error: Exception) -> None:
        """Its `enter` raises `error`."""
        self._step_out(question)
        if question.go is not None and not question.go.done():
            question.go.set_exception(error)

    def let_in(self) -> Question | None:
        """Lets go who may. Returns the oldest aged one that still waits and has no room yet, if there is one."""
        if not self._waiting:
            return None
        now = asyncio.get_running_loop().time()
        missing: dict[Document, int] = {}
        aged: dict[Question, bool] = {}
        left_s: dict[Document, float] = {}
        for question in self._waiting:
            document = question.document
            if document not in missing:
                missing[document] = self._documents.missing(document)
                left_s[document] = self._documents.left_s(document)
            aged[question] = is_aged(question, left_s[document], now)
        in_order = sorted(self._waiting, key=lambda one: (not aged[one], not one.document.is_hot, one.number))
        oldest: Question | None = None
        for question in in_order:
            if question.is_leaving:
                continue
            self._try(question, missing[question.document], oldest)
            document = question.document
            if oldest is None and aged[question] and not (question.is_placed or document.grant or document.leader):
                oldest = question
        return oldest

    def let_in_readers_of(self, document: Document) -> None:
        """Its read is done. They had their room while it ran: they go before anybody who waits for some."""
        for question in list(document.waiting):
            if not question.is_leaving:
                self._try(question, 0, None)

    async def calm(self, timeout_s: float) -> None:
        """Waits until each question that went has a token, at most so long."""
        if self._num_tokenless:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._calm.wait(), timeout_s)

    def _try(self, question: Question, num_missing: int, before: Question | None) -> None:
        document = question.document
        if document.grant or document.leader:
            question.wait_for("read")
        elif not self._documents.fits(document, question.num_tokens, before):
            question.wait_for("room")
        elif num_missing and not self._documents.is_small(document, num_missing):
            question.wait_for("read")
        else:
            if num_missing:
                document.leader = question
            self._place(question)

    def _place(self, question: Question) -> None:
        self._step_out(question)
        question.document.placed.add(question)
        question.is_placed = True
        self._num_tokenless += 1
        self._calm.clear()
        if question.go is not None:
            question.go.set_result(None)

    def _step_out(self, question: Question) -> None:
        del self._waiting[question]
        question.document.waiting.remove(question)
        question.cause = None

    def _count_down(self) -> None:
        self._num_tokenless -= 1
        if not self._num_tokenless:
            self._calm.set()
