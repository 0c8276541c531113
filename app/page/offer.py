"""Decides what is offered after a refusal that has not read all of a document: to read it, and what that would cost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from app.page.documents import Choice
from app.page.pace import Pace
from app.page.words import counted, say
from app.problem import Problem
from app.read_through import section_lengths
from app.words import Language
from ingest.document import SHEETED

if TYPE_CHECKING:
    from app.answer import Answer
    from app.people.member import Member


async def whole_offer(
    member: Member, answer: Answer, choice: Choice, pace: Pace, language: Language
) -> dict[str, Any] | None:
    """What AnswerFoot.jsx gets after `answer`: {label, cost, document}; None where no more of a document can be read.

    The cost is the most that it can be: what is cached, and what comes after a section that answers, is not read.
    """
    doc_id = answer.reading.doc_id if answer.reading is not None else choice.doc_id
    read_all = answer.reading is not None and answer.reading.whole
    if not answer.abstained or read_all or doc_id is None:
        return None
    try:
        lengths = await section_lengths(member.assistant, doc_id, choice.kb)
    except Problem:  # A section of it is longer than the model holds.
        return None
    if len(lengths) < 2:
        return None
    receipt, saying_s = answer.receipt, 0.0
    if receipt is not None and receipt.first_token_ms is not None:
        saying_s = (receipt.total_ms - receipt.first_token_ms) / 1000
    seconds = None
    if pace.tokens_per_s is not None:
        seconds = sum(lengths) / pace.tokens_per_s + len(lengths) * saying_s
    document = await asyncio.to_thread(member.document, doc_id, choice.kb)
    of = ("pages", document.pages) if document.kind in SHEETED else ("sections", len(lengths))
    return {
        "label": say("read_it_whole", language),
        "cost": cost_words(counted(*of, language), sum(lengths), seconds, language),
        "document": Choice(choice.kb, doc_id).id,
    }


def cost_words(extent: str, num_tokens: int, seconds: float | None, language: Language) -> str:
    """ "16 pages, 23,000 tokens: up to 28 s" """
    tokens = f"{num_tokens:,}"
    if seconds is None:
        return say("whole_cost_unknown", language, extent=extent, tokens=tokens)
    return say("whole_cost", language, extent=extent, tokens=tokens, time=_lasting(seconds, language))


def _lasting(seconds: float, language: Language) -> str:
    if seconds < 1:
        return say("under_a_second", language)
    if seconds < 100:
        return say("seconds", language, count=-int(-seconds // 1))
    return say("minutes", language, count=-int(-seconds // 60))
