"""Decides what tags a document bears in a base: short names that people give, to search among some documents only."""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from collections.abc import Sequence

from ingest.database import Database
from ingest.document import IngestError
from ingest.identity import next_generation

_MOST_LETTERS = 64


def tag(words: str) -> str:
    """A tag as it is kept: small letters, no blanks around it, one way of writing each letter.

    Raises:
        IngestError: `bad_tag`.
    """
    kept = unicodedata.normalize("NFC", words).strip().casefold()
    if not kept or len(kept) > _MOST_LETTERS or "," in kept or not kept.isprintable():
        raise IngestError(
            "bad_tag", f"{words!r} is no tag: use 1 to {_MOST_LETTERS} letters, digits, blanks and marks, but no comma."
        )
    return kept


class Tags:
    """Reads and writes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def change(self, kb: str, document_id: str, add: Sequence[str], remove: Sequence[str]) -> tuple[str, ...]:
        """Gives a document tags and takes others away, all at once; says what it bears now, in order.

        Raises:
            IngestError: `bad_tag`, or `not_found` where it is not in `kb`.
        """
        added, removed = [tag(words) for words in add], [tag(words) for words in remove]
        with self._database.writing() as connection:
            member = connection.execute("SELECT 1 FROM members WHERE kb = ? AND document_id = ?", (kb, document_id))
            if member.fetchone() is None:
                raise IngestError(
                    "not_found", f'There is no document {document_id} in "{kb}": `readonce ls` lists all.'
                )
            for words in removed:
                connection.execute("DELETE FROM tags WHERE (kb, document_id, tag) = (?,?,?)", (kb, document_id, words))
            give_tags(connection, kb, document_id, added)
            next_generation(connection)  # what was found by the old tags is out of date
            return tags_of(connection, kb, document_id)


def tags_of(connection: sqlite3.Connection, kb: str, document_id: str) -> tuple[str, ...]:
    rows = connection.execute("SELECT tag FROM tags WHERE kb = ? AND document_id = ? ORDER BY 1", (kb, document_id))
    return tuple(row[0] for row in rows)


def tags_of_name(connection: sqlite3.Connection, kb: str, name: str) -> tuple[str, ...]:
    """Those of the document that is called `name` in `kb`: what takes its place bears them too."""
    row = connection.execute("SELECT document_id FROM members WHERE kb = ? AND name = ?", (kb, name)).fetchone()
    return () if row is None else tags_of(connection, kb, row[0])


def give_tags(connection: sqlite3.Connection, kb: str, document_id: str, tags: Sequence[str]) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO tags SELECT ?, ?, value FROM json_each(?)", (kb, document_id, json.dumps(list(tags)))
    )
