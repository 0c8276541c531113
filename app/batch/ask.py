"""Decides how one question of a batch is asked, once what it is about is read, and what becomes of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.batch.choice import Choice
from app.batch.question import BatchAnswer
from app.batch.schema import Schema, places
from app.conversation import Conversation, Turn
from app.put import checked_answer, streamed
from engine.base import EngineError, Finish, Prompt, Sampling

if TYPE_CHECKING:
    from app.answer import Citation
    from app.reader import Read, Reader

# Chats go first (0), and what is read ahead comes last (10).
PRIORITY = 5


@dataclass(frozen=True)
class Asked:
    """An answer, and the turn that a follow-up goes on from."""

    answer: BatchAnswer
    turn: Turn


async def ask(
    reader: Reader,
    choice: Choice,
    apart: str,
    earlier: tuple[Turn, ...],
    schema: Schema | None,
    max_tokens: int,
    came: Callable[[int], None] = lambda num_tokens: None,
) -> Asked:
    """Asks once.

    Args:
        apart: See `BatchOptions.apart`.
        earlier: The conversation before it, with its answers.
        came: Gets how many tokens of the answer have just come.

    Raises:
        Problem, EngineError, IngestError: One sentence each.
    """
    question = choice.question
    conversation = Conversation(list(earlier))
    read, prompt, history = await asyncio.to_thread(_laid_out, reader, choice, apart, conversation)
    sampling = Sampling(max_tokens=max_tokens, priority=PRIORITY, schema=schema.text if schema else "")
    text, finish = "", None
    async with aclosing(streamed(reader.engine, prompt, sampling)) as stream:
        async for piece in stream:
            if isinstance(piece, Finish):
                finish = piece
                break
            text += piece.text
            came(len(piece.token_ids))
    if finish is None or finish.reason == "abort":
        raise EngineError("engine_failed", "The engine gave the question up; look into its log.")
    closed = reader.layout.history_after(prompt, finish.token_ids)[len(history) :]
    turn = Turn(question.question, closed, read.doc_id, read.section_numbers)
    said = await asyncio.to_thread(_said, schema, question.question, text, read, finish)
    receipt = finish.receipt
    answer = BatchAnswer(
        question.row,
        question.id,
        question.question,
        said.text,
        said.abstained,
        said.citations,
        read.reading.title,
        read.doc_id,
        receipt.cached_tokens,
        receipt.prompt_tokens,
        receipt.output_tokens,
        round(receipt.total_ms / 1000, 3),
        is_cut=finish.reason == "length",
    )
    return Asked(answer, turn)


@dataclass(frozen=True)
class _Said:
    text: str
    abstained: bool
    citations: tuple[Citation, ...]


def _laid_out(
    reader: Reader, choice: Choice, apart: str, conversation: Conversation
) -> tuple[Read, Prompt, tuple[int, ...]]:
    read = reader.read(choice.plan, choice.kb, apart)
    return read, *reader.ask(read, choice.question.question, conversation)


def _said(schema: Schema | None, question: str, text: str, read: Read, finish: Finish) -> _Said:
    if schema is None:
        answer = checked_answer(question, text, read, finish, asks=False)
        return _Said(answer.text, answer.abstained, answer.citations)
    checked = schema.checked(text)
    return _Said(checked, False, places(checked, question, read.sources()))
