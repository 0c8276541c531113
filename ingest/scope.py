"""Decides which passages may be found, before any ranking: those of a base, of documents, pages, days and tags."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from ingest.identity import base_id, generation
from ingest.index import Ids
from ingest.roster import Roster

PageRange = tuple[int, int]
"""First and last sheet, counted from 1, both of them meant."""


_MOST_KNOWN = 64


@dataclass(frozen=True)
class Filters:
    """What a hit has to be. Empty, or None: anything.

    Attributes:
        pages: On one of these sheets.
        since, until: Its document was added to the base on such a day or after, before; days of UTC, both meant.
        tags: Its document bears all of these in the base.
    """

    pages: tuple[PageRange, ...] = ()
    since: date | None = None
    until: date | None = None
    tags: tuple[str, ...] = ()

    @property
    def of_documents(self) -> bool:
        """Whether whole documents are left out by it."""
        return self.since is not None or self.until is not None or bool(self.tags)


ANYTHING = Filters()


@dataclass(frozen=True)
class Scope:
    """Where to look. None: everywhere."""

    kb: str | None
    doc_ids: tuple[str, ...] | None
    filters: Filters = ANYTHING


def matching_documents(connection: sqlite3.Connection, scope: Scope) -> set[str]:
    """The documents of `scope`, by id; pages are not looked at."""
    conditions, values = ["(? IS NULL OR m.kb = ?)"], [scope.kb, scope.kb]
    # Times are kept as text, of one form: a day is the beginning of all its times.
    if scope.filters.since is not None:
        conditions.append("m.added_at >= ?")
        values.append(scope.filters.since.isoformat())
    if scope.filters.until is not None and scope.filters.until < date.max:
        conditions.append("m.added_at < ?")
        values.append((scope.filters.until + timedelta(days=1)).isoformat())
    for tag in scope.filters.tags:
        conditions.append(
            "EXISTS (SELECT 1 FROM tags t WHERE t.kb = m.kb AND t.document_id = m.document_id AND t.tag = ?)"
        )
        values.append(tag)
    rows = connection.execute(f"SELECT DISTINCT document_id FROM members m WHERE {' AND '.join(conditions)}", values)
    found = {row[0] for row in rows}
    return found if scope.doc_ids is None else found & set(scope.doc_ids)


class Scopes:
    """The passages of a scope, worked out once for each state of the store. Safe for several threads."""

    def __init__(self) -> None:
        self._of = ("", -1)
        self._known: dict[Scope, Ids | None] = {}
        self._lock = threading.Lock()

    def allowed(self, connection: sqlite3.Connection, scope: Scope, roster: Roster) -> Ids | None:
        """In order of id; None where they are all that there are. `connection` is in a transaction."""
        state = (base_id(connection), generation(connection))
        if state != (roster.base, roster.generation):
            return allowed_ids(connection, scope, roster)
        with self._lock:
            if state != self._of or len(self._known) >= _MOST_KNOWN:
                self._of, self._known = state, {}
            if scope not in self._known:
                self._known[scope] = allowed_ids(connection, scope, roster)
            return self._known[scope]


def allowed_ids(connection: sqlite3.Connection, scope: Scope, roster: Roster) -> Ids | None:
    """The passages of `scope`, in order of id; None where they are all that there are."""
    if scope == Scope(None, None):
        return None
    documents = np.zeros(len(roster.documents) + 1, dtype=np.bool_)  # the last place stands for no document
    numbers = (roster.documents.get(id_) for id_ in matching_documents(connection, scope))
    documents[[number for number in numbers if number is not None]] = True
    allowed = documents[roster.document]
    if scope.filters.pages:
        on_pages = np.zeros(len(allowed), dtype=np.bool_)
        for first, last in scope.filters.pages:
            on_pages |= (roster.page >= first) & (roster.page <= last)
        allowed &= on_pages
    ids = np.flatnonzero(allowed)
    return None if len(ids) == len(roster.ids) else ids
