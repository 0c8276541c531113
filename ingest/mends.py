"""Decides how damaged parts of a base are put back: each mend is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from ingest.changes import drop_unreferenced, insert_passages, insert_words, new_keywords, next_generation
from ingest.database import Database
from ingest.document import Paragraph, Passage
from ingest.embed import Vectors
from ingest.sweep import sweep


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


def drop_orphans(database: Database, files: Path) -> None:
    """Erases documents without a base, and rows without a document."""
    with database.writing() as connection:
        for table in ("members", "pages", "paragraphs", "sections", "passages"):
            connection.execute(f"DELETE FROM {table} WHERE document_id NOT IN (SELECT id FROM documents)")
        drop_unreferenced(connection)
        connection.execute("DELETE FROM keywords WHERE rowid NOT IN (SELECT id FROM passages)")
        next_generation(connection)
    sweep(database, files)
