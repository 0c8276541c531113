"""Decides what a person is shown of each knowledge base: its documents with their state, and what they may do there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.browse.condition import Condition, condition
from app.browse.coverage import Coverage
from app.page.text import plain_title
from app.people.rights import Base, Role, role_in, suffices
from ingest.document import SHEETED, IngestError

if TYPE_CHECKING:
    from app.browse.visit import Visit
    from ingest.store import StoredDocument


@dataclass(frozen=True)
class Row:
    """A document in a list."""

    document: StoredDocument
    coverage: Coverage
    condition: Condition

    @property
    def title(self) -> str:
        return plain_title(self.document.title, most=120)

    @property
    def has_sheets(self) -> bool:
        return self.document.kind in SHEETED


@dataclass(frozen=True)
class Shelf:
    """A base as one person sees it.

    Attributes:
        rows: The latest first; `total` is how many documents there are.
    """

    base: Base
    role: Role
    rows: tuple[Row, ...]
    total: int

    @property
    def may_add(self) -> bool:
        return suffices(self.role, "contributor")

    @property
    def owns(self) -> bool:
        return self.role == "owner"

    @property
    def moves(self) -> bool:
        return any(row.condition.moves for row in self.rows)


def shelves(visit: Visit, most_rows: int) -> tuple[Shelf, ...]:
    """All bases that the person may read, each with its latest `most_rows` documents. Blocking."""
    return tuple(_shelf(visit, base, most_rows) for base in visit.member.bases())


def shelf(visit: Visit, kb: str, most_rows: int | None = None) -> Shelf:
    """One of them. Blocking.

    Raises:
        Problem: `not_found`.
    """
    return _shelf(visit, visit.member.library.require(visit.member.person, kb), most_rows)


def row(visit: Visit, document: StoredDocument) -> Row:
    """Raises:
    IngestError: `not_found` where it was removed meanwhile.
    """
    corpus = visit.member.assistant.corpus
    view = visit.place.glance.view(visit.member.assistant)
    covered = visit.place.coverages.of(corpus, document)
    return Row(document, covered, condition(document, corpus.sections(document.id), view))


def _shelf(visit: Visit, base: Base, most_rows: int | None) -> Shelf:
    documents = visit.member.documents(base.name)[::-1]
    rows = []
    for document in documents[:most_rows]:
        try:
            rows.append(row(visit, document))
        except IngestError:
            continue  # removed while the list was made
    role = role_in(base, visit.member.person)
    assert role is not None  # `member` gives readable ones only
    return Shelf(base, role, tuple(rows), len(documents))
