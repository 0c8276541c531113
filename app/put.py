"""Decides how a planned question becomes an answer: its words as they come, then what of them holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import cast

from app.ahead import Ahead
from app.answer import Answer, Event, Words
from app.cite import cite
from app.conversation import Conversation, Turn
from app.plan import Plan
from app.question import leans
from app.reader import Read, Reader
from app.words import beginning, language_of, not_in_reading, unsupported
from engine.base import Delta, Engine, Finish, Prompt, Sampling


async def put(
    reader: Reader,
    planned: Plan,
    question: str,
    kb: str,
    conversation: Conversation | None,
    apart: str,
    session: str | None,
    sampling: Sampling,
    ahead: Ahead,
) -> AsyncGenerator[Event, None]:
    """As `Assistant.put`, to the engine of `reader`, once.

    Raises:
        EngineError: What the engine said.
    """
    earlier = conversation.earlier_questions() if conversation is not None and leans(question) else ()
    read, prompt, history = await asyncio.to_thread(_laid_out, reader, planned, question, kb, apart, conversation)
    if apart:
        ahead.let_go_at_end(read.prefix)
    yield read.reading
    text, ids, finish = "", list[int](), None
    try:
        async with aclosing(streamed(reader.engine, prompt, sampling)) as stream:
            async for piece in stream:
                if isinstance(piece, Finish):
                    finish = piece
                    break
                text += piece.text
                ids += piece.token_ids
                yield Words(piece.text)
    finally:
        if conversation is not None and (text or ids or finish):
            # An engine that reports ids only at its end leaves a stopped answer as words alone.
            output = finish.token_ids if finish else ids or reader.layout.tokenizer.encode_text(text)
            closed = reader.layout.history_after(prompt, output)[len(history) :]
            conversation.add(Turn(question, closed, read.doc_id, read.section_numbers, kb))
    assert finish is not None  # the protocol: Finish comes last, exactly once
    if session is not None:
        ahead.bind_soon(session, read.prefix)
    yield await asyncio.to_thread(checked_answer, question, text, read, finish, earlier)


def _laid_out(
    reader: Reader, planned: Plan, question: str, kb: str, apart: str, conversation: Conversation | None
) -> tuple[Read, Prompt, tuple[int, ...]]:
    read = reader.read(planned, kb, apart)
    return read, *reader.ask(read, question, conversation)


def streamed(engine: Engine, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
    """Every engine's stream can be closed before its end, though the protocol promises no more than iteration."""
    return cast("AsyncGenerator[Delta | Finish, None]", engine.generate(prompt, sampling))


def checked_answer(
    question: str, text: str, read: Read, finish: Finish, earlier: Sequence[str] = (), *, asks: bool = True
) -> Answer:
    """The checked answer. Blocking: an abstention in our words, or the model's words with the citations that hold.

    Args:
        earlier: The questions that this one leans on, oldest first.
        asks: See `not_in_reading`.
    """
    from engine.refusal import is_refusal

    language = language_of(question)
    abstention = not_in_reading(read.reading, read.num_searched, language, asks=asks)
    if is_refusal(text) or not text.strip():
        return Answer(abstention, True, (), finish.receipt, read.reading, finish.token_ids)
    cited = cite(text, question, read.sources(), earlier)
    if not cited.citations:
        words = beginning(cited.text)
        said = unsupported(words, abstention, language)
        return Answer(said, True, (), finish.receipt, read.reading, finish.token_ids, abstention, words)
    return Answer(cited.text, False, cited.citations, finish.receipt, read.reading, finish.token_ids)
