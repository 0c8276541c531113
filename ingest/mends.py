"""Decides how damaged parts of a base are put back: each mend is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from datetime import UTC, datetime

from ingest.changes import insert_passages, insert_words, new_keywords
from ingest.database import Database
from ingest.document import PAGE_BREAK, Paragraph, Passage
from ingest.embed import Vectors
from ingest.identity import next_generation
from ingest.sweep import mark

RECOVERED_KB = "recovered"


def mend_passages(database: Database, document_id: str, passages: Sequence[Passage], vectors: Vectors) -> None:
    """Puts passages and their keywords in place of those of one document; they get new ids."""
    with database.writing() as connection:
        text = connection.execute("SELECT text FROM documents WHERE id = ?", (document_id,)).fetchone()
        if text is None:
            return
        connection.execute(
            "DELETE FROM keywords WHERE rowid IN (SELECT id FROM passages WHERE document_id = ?)", (document_id,)
        )
        connection.execute("DELETE FROM passages WHERE document_id = ?", (document_id,))
        insert_passages(connection, document_id, text[0], passages, vectors)
        next_generation(connection)


def mend_paragraphs(database: Database, document_id: str, paragraphs: Sequence[Paragraph]) -> None:
    """Puts paragraphs in place of those of one document; its sections, which count them, are made anew when asked."""
    with database.writing() as connection:
        if connection.execute("SELECT 1 FROM documents WHERE id = ?", (document_id,)).fetchone() is not None:
            connection.execute("DELETE FROM paragraphs WHERE document_id = ?", (document_id,))
            connection.execute("DELETE FROM sections WHERE document_id = ?", (document_id,))
            connection.executemany(
                "INSERT INTO paragraphs VALUES (?,?,?,?,?)", [(document_id, *astuple(one)) for one in paragraphs]
            )


def mend_pages(database: Database, document_id: str) -> None:
    """Cuts a document's pages anew at its page breaks; labels and origins of pages that were right are kept."""
    with database.writing() as connection:
        row = connection.execute("SELECT text FROM documents WHERE id = ?", (document_id,)).fetchone()
        if row is None:
            return
        kept = {
            (start, end): (label, origin)
            for start, end, label, origin in connection.execute(
                'SELECT start, "end", label, origin FROM pages WHERE document_id = ?', (document_id,)
            )
        }
        connection.execute("DELETE FROM pages WHERE document_id = ?", (document_id,))
        start = 0
        for number, text in enumerate(row[0].split(PAGE_BREAK), 1):
            end = start + len(text)
            label, origin = kept.get((start, end), (None, "text"))
            connection.execute(
                "INSERT INTO pages VALUES (?,?,?,?,?,?)", (document_id, number, label, start, end, origin)
            )
            start = end + len(PAGE_BREAK)


def drop_sections(database: Database, document_id: str) -> None:
    """Forgets the kept sections of a document: they are made anew when asked for."""
    with database.writing() as connection:
        connection.execute("DELETE FROM sections WHERE document_id = ?", (document_id,))


def mend_keywords(database: Database) -> None:
    """Makes the whole keyword index anew from the passages' texts."""
    with database.writing() as connection:
        new_keywords(connection)
        for document_id, text in connection.execute("SELECT id, text FROM documents").fetchall():
            spans = connection.execute(
                'SELECT id, start, "end" FROM passages WHERE document_id = ?', (document_id,)
            ).fetchall()
            for id_, start, end in spans:
                insert_words(connection, id_, text[start:end])
        next_generation(connection)


def drop_orphans(database: Database) -> None:
    """Erases rows of documents that are not there."""
    with database.writing() as connection:
        for table in ("members", "pages", "paragraphs", "sections", "passages"):
            connection.execute(f"DELETE FROM {table} WHERE document_id NOT IN (SELECT id FROM documents)")
        connection.execute("DELETE FROM keywords WHERE rowid NOT IN (SELECT id FROM passages)")
        mark(connection)
        next_generation(connection)


def recover(database: Database) -> None:
    """Puts documents without a base into `RECOVERED_KB`, under their ids: nobody knows whose they are."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    with database.writing() as connection:
        connection.execute(
            """INSERT INTO members (kb, document_id, name, added_at) SELECT ?, id, id || suffix, ? FROM documents
               WHERE id NOT IN (SELECT document_id FROM members)""",
            (RECOVERED_KB, now),
        )
        next_generation(connection)
