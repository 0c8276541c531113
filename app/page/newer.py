"""Decides what a citation of a replaced document leads to: the same sentence in the new version, else the same page."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from app.page.places import sheet_words
from app.page.text import plain_title
from app.page.words import say
from app.words import Language
from ingest.document import SHEETED

if TYPE_CHECKING:
    from app.people.member import Member
    from ingest.document import Document

# As long as the longest sentence that is worth looking for.
MOST_QUOTE_CHARACTERS = 2_000


def newer_version(member: Member, doc_id: str, page: int, quote: str, language: Language) -> dict[str, Any] | None:
    """{problem, removed, newer: {doc_id, page, start, end, label}}; None where nothing replaced it that they may read.

    Blocking.

    Args:
        page, quote: Of the citation, from the browser: they decide the place alone.
    """
    readable = {(document.kb, document.id) for document in member.documents()}
    corpus = member.assistant.corpus
    for one in corpus.successors(doc_id):
        if (one.kb, one.document_id) not in readable:
            continue
        document = corpus.read_document(one.document_id)
        newer = _same_sentence(member, document, page, quote, language) or _same_page(document, page, language)
        told = say("source_replaced", language, name=plain_title(one.name), date=one.replaced_at[:10])
        return {"problem": told, "removed": True, "newer": {"doc_id": document.id, **newer}}
    return None


def _same_sentence(
    member: Member, document: Document, page: int, quote: str, language: Language
) -> dict[str, Any] | None:
    """Where the quote's words stand, nearest to the page on which they stood; None where they don't."""
    words = [re.escape(word) for word in quote[:MOST_QUOTE_CHARACTERS].split()]
    if not words:
        return None
    starts = document.page_starts
    places = [(bisect_right(starts, found.start()), found) for found in re.finditer(r"\s+".join(words), document.text)]
    if not places:
        return None
    number, found = min(places, key=lambda place: abs(place[0] - page))
    if document.kind in SHEETED:
        where = _sheet(document, number, language)
    else:
        paragraphs = member.assistant.corpus.paragraphs(document.id)
        held = bisect_right([paragraph.start for paragraph in paragraphs], found.start())
        where = say("paragraph", language, number=held)
    label = say("newer_same", language, where=where)
    return {"page": number, "start": found.start(), "end": found.end(), "label": label}


def _same_page(document: Document, page: int, language: Language) -> dict[str, Any]:
    if document.kind not in SHEETED:
        return {"page": 1, "start": 0, "end": 0, "label": say("newer", language)}
    number = min(max(page, 1), len(document.pages))
    label = say("newer_page", language, where=_sheet(document, number, language))
    return {"page": number, "start": 0, "end": 0, "label": label}


def _sheet(document: Document, number: int, language: Language) -> str:
    return sheet_words(number, document.pages[number - 1].label, len(document.pages), language)
