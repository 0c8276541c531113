"""Decides what stands in the place of a document that was replaced: whatever bears its name in that base now.

Of the old one its id alone is kept, and that only for as long as something bears the name.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Successor:
    """What has come in a document's place in one base.

    Attributes:
        replaced_at: When the old one went; UTC, ISO 8601.
    """

    kb: str
    document_id: str
    name: str
    replaced_at: str


def remember(connection: sqlite3.Connection, kb: str, name: str, document_id: str) -> None:
    """`document_id` has just lost its name in `kb` to another."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    connection.execute("INSERT OR REPLACE INTO replaced VALUES (?, ?, ?, ?)", (kb, document_id, name, now))


def rename(connection: sqlite3.Connection, kb: str, document_id: str, name: str) -> None:
    """A member is about to bear another name."""
    connection.execute(
        "UPDATE replaced SET name = ? "
        "WHERE kb = ? AND name = (SELECT name FROM members WHERE kb = replaced.kb AND document_id = ?)",
        (name, kb, document_id),
    )


def tidy(connection: sqlite3.Connection) -> None:
    """Forgets those that are there again, and those whose name nothing bears any more."""
    connection.execute(
        "DELETE FROM replaced WHERE "
        "EXISTS (SELECT 1 FROM members m WHERE m.kb = replaced.kb AND m.document_id = replaced.document_id) OR "
        "NOT EXISTS (SELECT 1 FROM members m WHERE m.kb = replaced.kb AND m.name = replaced.name)"
    )


def successors(connection: sqlite3.Connection, document_id: str) -> tuple[Successor, ...]:
    """One for each base in which the document was replaced, the latest first."""
    rows = connection.execute(
        "SELECT m.kb, m.document_id, m.name, r.replaced_at FROM replaced r "
        "JOIN members m ON m.kb = r.kb AND m.name = r.name WHERE r.document_id = ? ORDER BY r.replaced_at DESC",
        (document_id,),
    )
    return tuple(Successor(*row) for row in rows)
