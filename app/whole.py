"""Decides what reading the rest of a document would cost after a refusal that has read but a part of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.page.words import counted, say
from app.problem import Problem
from app.read_through import section_lengths
from app.words import Language
from ingest.document import SHEETED

if TYPE_CHECKING:
    from app.answer import Answer
    from app.assistant import Assistant


@dataclass(frozen=True)
class WholeCost:
    """The most that reading a document whole can cost: what is cached, and what follows an answer, is not read.

    Attributes:
        pages: Sheets; None of a document that has none, such as a text file.
        num_tokens: Of all sections, with the instructions of each.
        seconds: None where the engine's speed is not known yet.
    """

    doc_id: str
    pages: int | None
    num_sections: int
    num_tokens: int
    seconds: float | None

    def words(self, language: Language) -> str:
        """ "16 pages, 23,000 tokens: up to 28 s" """
        extent = ("sections", self.num_sections) if self.pages is None else ("pages", self.pages)
        return cost_words(counted(*extent, language), self.num_tokens, self.seconds, language)


async def cost_of_whole(
    assistant: Assistant, answer: Answer, doc_id: str | None, kb: str, tokens_per_s: float | None
) -> WholeCost | None:
    """What the rest would cost after `answer`; None where it is no refusal, or no more of a document can be read.

    Args:
        doc_id: The document that was asked, where the answer has read none.
        tokens_per_s: How fast the engine reads what it has not cached.
    """
    doc_id = answer.reading.doc_id if answer.reading is not None else doc_id
    read_all = answer.reading is not None and answer.reading.whole
    if not answer.abstained or read_all or doc_id is None:
        return None
    try:
        lengths = await section_lengths(assistant, doc_id, kb)
    except Problem:  # A section of it is longer than the model holds.
        return None
    if len(lengths) < 2:
        return None
    receipt, saying_s = answer.receipt, 0.0
    if receipt is not None and receipt.first_token_ms is not None:
        saying_s = (receipt.total_ms - receipt.first_token_ms) / 1000
    seconds = None if tokens_per_s is None else sum(lengths) / tokens_per_s + len(lengths) * saying_s
    document = await asyncio.to_thread(assistant.corpus.document, doc_id, kb)
    pages = document.pages if document.kind in SHEETED else None
    return WholeCost(doc_id, pages, len(lengths), sum(lengths), seconds)


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
