"""Decides how a whole document is read for a question that its nearest part did not answer: part after part.

Each section is read as any question reads it, so what was read before is found in the cache, and what is read now stays
for later questions. It ends with the first section that answers; where none does, all of the document was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from app.answer import Answer, Event, Reading, Words
from app.conversation import Conversation
from app.plan import Plan
from app.question import checked
from app.words import language_of, not_in_reading, nothing_relevant
from engine.base import Receipt

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.engines import Report
    from ingest.document import Section
    from ingest.store import StoredDocument

# "The document does not say." of each section is not shown: the first words wait until they can't be that any more.
HELD_BACK_CHARS = 80


async def read_through(
    assistant: Assistant,
    question: str,
    *,
    kb: str,
    doc_id: str,
    conversation: Conversation | None = None,
    report: Report | None = None,
    session: str | None = None,
) -> AsyncGenerator[Event, None]:
    """As `Assistant.ask`; yields a `Reading` for each section, and words of the one that answers.

    The answer's reading goes from the first page to the last one read, and its receipt is that of all calls together.
    One turn is added to the conversation: that of the section that answered or was stopped, else of the last one.

    Raises:
        Problem, EngineError, IngestError: As `Assistant.ask`.
    """
    question = checked(question)
    document, sections = await asyncio.to_thread(_parts, assistant, doc_id, kb)
    if not sections:
        yield Answer(nothing_relevant(1, language_of(question)), True, (), None, None)
        return
    reader = await assistant.reader(report)
    conversation = conversation if conversation is not None else Conversation()
    receipts = list[Receipt]()
    for number, section in enumerate(sections):
        is_last = number == len(sections) - 1
        planned = Plan(document, (section,), len(sections) == 1, 1)
        tried, answer, held = conversation.tried(), None, ""
        put = assistant.put(reader, planned, question, kb=kb, conversation=tried, session=session)
        try:
            async with aclosing(put) as events:
                async for event in events:
                    if isinstance(event, Answer):
                        answer = event
                    elif isinstance(event, Words) and len(held) < HELD_BACK_CHARS:
                        held += event.text
                        if len(held) >= HELD_BACK_CHARS:
                            yield Words(held)
                    else:
                        yield event
        finally:
            if answer is None or not answer.abstained or is_last:
                conversation.take_over(tried)
        assert answer is not None  # the last event of each
        receipts += [answer.receipt] if answer.receipt is not None else []
        if is_last or not answer.abstained:
            yield _of_all(answer, question, document, sections, section, receipts)
            return


async def section_lengths(assistant: Assistant, doc_id: str, kb: str) -> tuple[int, ...]:
    """Tokens of each section with the instructions, as the engine in use counts them. Nothing is read for it.

    Raises:
        Problem, EngineError, IngestError: As `Assistant.ask`.
    """
    reader = await assistant.reader()

    def counted() -> tuple[int, ...]:
        document, sections = _parts(assistant, doc_id, kb)
        plans = [Plan(document, (section,), len(sections) == 1, 1) for section in sections]
        return tuple(reader.read(planned, kb).prefix.num_tokens for planned in plans)

    return await asyncio.to_thread(counted)


def _parts(assistant: Assistant, doc_id: str, kb: str) -> tuple[StoredDocument, Sequence[Section]]:
    document = assistant.corpus.resolve_document(doc_id, kb)
    return document, assistant.corpus.sections(document.id)


def _of_all(
    answer: Answer,
    question: str,
    document: StoredDocument,
    sections: Sequence[Section],
    last: Section,
    receipts: Sequence[Receipt],
) -> Answer:
    assert answer.reading is not None
    whole = last.number == sections[-1].number
    reading = Reading(
        doc_id=document.id,
        title=document.title,
        section_title="",
        whole=whole,
        first_page=sections[0].first_page,
        last_page=last.last_page,
        num_pages=document.pages,
        prefix=answer.reading.prefix,
    )
    text = not_in_reading(reading, 1, language_of(question)) if answer.abstained else answer.text
    return replace(answer, text=text, reading=reading, receipt=summed(receipts), refusal="", unsupported="")


def summed(receipts: Sequence[Receipt]) -> Receipt | None:
    """What calls one after the other cost together; None of none.

    The first word is that of the last call, counted from the first one's start; what one of them did not report is not
    reported.
    """
    if not receipts:
        return None
    *before, last = receipts
    waited_ms = sum(receipt.total_ms for receipt in before)
    cached = [receipt.cached_tokens for receipt in receipts if receipt.cached_tokens is not None]
    return Receipt(
        prompt_tokens=sum(receipt.prompt_tokens for receipt in receipts),
        cached_tokens=sum(cached) if len(cached) == len(receipts) else None,
        output_tokens=sum(receipt.output_tokens for receipt in receipts),
        first_token_ms=None if last.first_token_ms is None else waited_ms + last.first_token_ms,
        total_ms=waited_ms + last.total_ms,
        prefix=last.prefix,
        cold_because=next((each.cold_because for each in receipts if each.cold_because is not None), None),
    )
