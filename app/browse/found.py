"""Decides how a place that a search found is shown: its words with the question's marked, and the link to its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.marking import Piece, marked
from app.page.places import sheet_words
from app.page.text import plain_title
from ingest.document import SHEETED

if TYPE_CHECKING:
    from app.browse.visit import Visit
    from ingest.search import Hit
    from ingest.store import StoredDocument

MOST_HITS = 20


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
