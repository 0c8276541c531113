"""Decides how a place that a search found is shown: its words with the question's marked, and the link to its page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.page.places import sheet_words
from app.page.text import plain_title
from app.terms import CJK, terms
from ingest.document import SHEETED

if TYPE_CHECKING:
    from app.browse.visit import Visit
    from ingest.search import Hit
    from ingest.store import StoredDocument

MOST_HITS = 20
AROUND_CHARACTERS = 240
_RUN = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+(?:[-_.'/@:+][^\W_{CJK}]+)*")


@dataclass(frozen=True)
class Piece:
    text: str
    marked: bool


@dataclass(frozen=True)
class Found:
    title: str
    kb: str
    where: str
    link: str
    pieces: tuple[Piece, ...]


def look(visit: Visit, question: str, kb: str | None = None, doc_id: str | None = None) -> tuple[Found, ...]:
    """The best places of a document, of a base, or of all that the person may read; only these are ranked. Blocking.

    Raises:
        Problem: `not_found`, `question_too_long`.
    """
    member = visit.member
    documents = {document.id: document for document in member.documents(kb)}
    if doc_id is not None and doc_id not in documents:
        member.document(doc_id, kb)
    if kb is None:
        hits: Sequence[Hit] = member.search(question, k=MOST_HITS)
    else:
        hits = member.assistant.search(question, kb=kb, doc_id=doc_id, k=MOST_HITS)
    return tuple(_found(visit, hit, documents[hit.doc_id], question) for hit in hits if hit.doc_id in documents)


def _found(visit: Visit, hit: Hit, document: StoredDocument, question: str) -> Found:
    sheeted = document.kind in SHEETED
    where = sheet_words(hit.page, hit.label, document.pages, visit.language) if sheeted else ""
    link = visit.link("documents", document.kb, document.id, "pages", str(hit.page), start=hit.start, end=hit.end)
    return Found(plain_title(document.title, most=120), document.kb, where, f"{link}#mark", marked(hit.text, question))


def marked(text: str, question: str) -> tuple[Piece, ...]:
    """`text` around its first word of the question, cut to what one reads at a glance, such words marked."""
    text = " ".join(text.replace("\f", " ").split())
    spans = list(_spans(text, frozenset(terms(question))))
    first = max(0, (spans[0][0] if spans else 0) - AROUND_CHARACTERS)
    last = min(len(text), first + 3 * AROUND_CHARACTERS)
    first = text.rfind(" ", 0, first) + 1 if first else 0
    pieces, at = [Piece("… ", False)] if first else [], first
    for start, end in spans:
        if at <= start and end <= last:
            pieces += [Piece(text[at:start], False), Piece(text[start:end], True)]
            at = end
    pieces.append(Piece(text[at:last] + (" …" if last < len(text) else ""), False))
    return tuple(piece for piece in pieces if piece.text)


def _spans(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    for run in _RUN.finditer(text):
        if re.match(f"[{CJK}]", run[0]) is None:
            if wanted & set(terms(run[0])):
                yield run.span()
            continue
        start, end = -1, -1
        for at in range(run.start(), run.end() - 1):
            if text[at : at + 2] not in wanted:
                continue
            if at > end:  # pairs that touch are one stretch
                if start >= 0:
                    yield start, end
                start = at
            end = at + 2
        if start >= 0:
            yield start, end
