"""Decides what is read for each question of a batch, before any is asked: retrieval for all of them first.

A follow-up is searched with the questions before it, as in a conversation; what was read for these is known here, and
the answers, which searching does not need, come later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from app.batch.question import BatchAnswer, BatchError, BatchQuestion
from app.conversation import Conversation, Turn
from app.filters import filters_in
from app.problem import Problem, tell
from app.words import language_of, nothing_relevant
from ingest.document import IngestError

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.batch.options import BatchOptions
    from app.plan import Plan
    from app.reader import Reader

# Searches at the same time: one computes while another waits for the disk, or for the model's other wording.
_SEARCHES = 4

Tell = Callable[[int, int], None]
"""Takes how many questions are planned, of how many."""


@dataclass(frozen=True)
class Choice:
    """A question with what is read for it.

    Attributes:
        prefix: The handle of what is read.
        num_tokens: Of that prefix.
        part: (base, document, first section's number): parts of one document stand together.
        waits_for: The id of the question before it, if that one has an answer to come.
        due_s: When its answer is wanted, in Unix seconds; None: whenever it comes.
    """

    question: BatchQuestion
    kb: str
    plan: Plan
    prefix: str
    num_tokens: int
    part: tuple[str, str, int]
    waits_for: str | None = None
    due_s: float | None = None


@dataclass(frozen=True)
class Choices:
    """All questions of a batch: those that a model has to answer, and the answers that need none."""

    choices: tuple[Choice, ...]
    answers: tuple[BatchAnswer, ...]


async def choose(
    assistant: Assistant,
    reader: Reader,
    questions: Sequence[BatchQuestion],
    options: BatchOptions,
    earlier: Mapping[str, tuple[Turn, ...]],
    tell_planned: Tell = lambda done, total: None,
) -> Choices:
    """Plans every question.

    Args:
        earlier: The conversations of questions that were answered before, by id: follow-ups go on from them.

    Raises:
        Problem: `duplicate_ids`.
    """
    return await _Choosing(assistant, reader, questions, options, earlier, tell_planned).run()


class _Choosing:
    def __init__(
        self,
        assistant: Assistant,
        reader: Reader,
        questions: Sequence[BatchQuestion],
        options: BatchOptions,
        earlier: Mapping[str, tuple[Turn, ...]],
        tell_planned: Tell,
    ) -> None:
        self._assistant = assistant
        self._reader = reader
        self._questions = questions
        self._options = options
        self._known = {question.id: question for question in questions}
        if len(self._known) < len(questions):
            counts: dict[str, int] = {}
            for question in questions:
                counts[question.id] = counts.get(question.id, 0) + 1
            twice = next(name for name, count in counts.items() if count > 1)
            raise Problem("duplicate_ids", f"Two questions have the id {twice!r}; give each its own.", usage=True)
        self._conversations = dict(earlier)
        self._tell = tell_planned
        self._slots = asyncio.Semaphore(_SEARCHES)
        self._choices: dict[str, Choice] = {}
        self._answers: dict[str, BatchAnswer] = {}

    async def run(self) -> Choices:
        waiting = list(self._questions)
        while waiting:
            ready = [question for question in waiting if self._may_go(question)]
            if not ready:
                self._refuse_rings(waiting)
                break
            await asyncio.gather(*(self._choose(question) for question in ready))
            settled = {question.id for question in ready}
            waiting = [question for question in waiting if question.id not in settled]
        rows = [question.id for question in self._questions]
        return Choices(
            tuple(self._choices[name] for name in rows if name in self._choices),
            tuple(self._answers[name] for name in rows if name in self._answers),
        )

    def _may_go(self, question: BatchQuestion) -> bool:
        before = question.follow_up_of
        return before not in self._known or before in self._choices or before in self._answers

    def _refuse_rings(self, questions: Sequence[BatchQuestion]) -> None:
        for question in questions:
            words = f"It follows {question.follow_up_of!r}, and so on back to itself: one of these has to stand alone."
            self._answers[question.id] = failed(question, "follows_itself", words)

    async def _choose(self, question: BatchQuestion) -> None:
        async with self._slots:
            try:
                chosen = await self._planned(question)
            except Exception as error:
                problem = tell(error)
                if problem is None:
                    raise
                chosen = failed(question, problem.code, problem.message)
        if isinstance(chosen, Choice):
            self._choices[question.id] = chosen
        else:
            self._answers[question.id] = chosen
        self._tell(len(self._choices) + len(self._answers), len(self._questions))

    async def _planned(self, question: BatchQuestion) -> Choice | BatchAnswer:
        filters = filters_in((*self._options.filters, *question.filters))
        before = self._before(question)
        kb = question.kb or self._options.kb
        doc_id = None if question.document is None else await asyncio.to_thread(self._found, question.document, kb)
        conversation = Conversation(list(before)) if before else None
        planned = await self._assistant.plan(
            question.question, kb=kb, doc_id=doc_id, filters=filters, conversation=conversation
        )
        if not planned.sections:
            said = nothing_relevant(planned.num_documents, language_of(question.question))
            self._conversations[question.id] = before
            return BatchAnswer(question.row, question.id, question.question, said, abstained=True)
        assert planned.document is not None
        numbers = tuple(section.number for section in planned.sections)
        self._conversations[question.id] = (*before, Turn(question.question, (), planned.document.id, numbers))
        read = await asyncio.to_thread(self._reader.read, planned, kb, self._options.apart)
        part = (kb, planned.document.name, numbers[0])
        waits_for = question.follow_up_of if question.follow_up_of in self._choices else None
        due_s = self._options.due_s if question.due_s is None else question.due_s
        return Choice(question, kb, planned, read.prefix.id, read.prefix.num_tokens, part, waits_for, due_s)

    def _found(self, document: str, kb: str) -> str:
        """Its id. Of a path from another machine the file's name counts, where nothing bears the path itself.

        Raises:
            Problem, IngestError: As `Assistant.find`.
        """
        try:
            return self._assistant.find(document, kb).id
        except (Problem, IngestError):
            name = PureWindowsPath(document).name
            if name == document or not PureWindowsPath(name).suffix:
                raise
            with contextlib.suppress(Problem, IngestError):
                return self._assistant.find(name, kb).id
            raise

    def _before(self, question: BatchQuestion) -> tuple[Turn, ...]:
        """The conversation so far, its answers left out.

        Raises:
            Problem: `unknown_question`, `earlier_failed`.
        """
        name = question.follow_up_of
        if name is None:
            return ()
        if name in self._answers and self._answers[name].error is not None:
            raise Problem("earlier_failed", f"The question {name!r} that it follows failed; mend that one first.")
        if name in self._conversations:
            return self._conversations[name]
        raise Problem("unknown_question", f"It follows {name!r}, and no question has that id; mend the id.")


def failed(question: BatchQuestion, code: str, message: str, seconds: float | None = None) -> BatchAnswer:
    """A row without an answer."""
    error = BatchError(code, message)
    return BatchAnswer(question.row, question.id, question.question, seconds=seconds, error=error)
