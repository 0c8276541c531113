"""Decides how documents come and go: each change is one transaction, so that all of it is stored, or nothing."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ingest.database import Database, text_hash
from ingest.document import Document, IngestError, Paragraph, Passage, Section
from ingest.embed import Vectors
from ingest.identity import EmbedderIdentity, check_identity, identity, next_generation
from ingest.keywords import index_words
from ingest.known_vectors import fill_in, keep_vectors


@dataclass(frozen=True)
class Prepared:
    """A document with everything that is worked out before the base is touched.

    The passages' vectors follow later (`ingest.embedding`): they take the most time, and are only a part of the search.

    Attributes:
        words: For each passage what it is found by, with blanks between.
    """

    document: Document
    paragraphs: tuple[Paragraph, ...]
    passages: tuple[Passage, ...]
    words: tuple[str, ...]
    num_tokens: int
    suffix: str
    num_bytes: int


class Changes:
    """Writes documents into bases and takes them out.

    Args:
        files: Where the original bytes are kept, as "<document id><suffix>".
    """

    def __init__(self, database: Database, files: Path) -> None:
        self._database = database
        self._files = files

    def add(
        self, prepared: Prepared, kb: str, name: str, made_by: EmbedderIdentity, staged: Path, source: str | None
    ) -> None:
        """Adds a document to `kb` under `name`, in place of what had that name there; moves `staged` to its files.

        Args:
            source: Where the file lies; None where nobody will look there again (an upload).

        Raises:
            IngestError: `embedder_changed`.
        """
        document = prepared.document
        with self._database.writing() as connection:
            check_identity(connection, made_by, bind=bool(prepared.passages))
            replaced = _release_name(connection, kb, name, document.id)
            if not _exists(connection, document.id):
                _insert(connection, prepared)
                staged.replace(self._files / f"{document.id}{prepared.suffix}")
            _join(connection, kb, document.id, name, source)
            if replaced is not None:
                keep_vectors(connection, replaced, document.id, made_by)
            fill_in(connection, document.id, made_by)
            _drop_unreferenced(connection)
            next_generation(connection)
        self._sweep_files()

    def join(self, kb: str, document_id: str, name: str, source: str | None) -> bool:
        """Makes a stored document a member of `kb`, in place of what had that name there; False if it is not stored."""
        with self._database.writing() as connection:
            if not _exists(connection, document_id):
                return False
            replaced = _release_name(connection, kb, name, document_id)
            _join(connection, kb, document_id, name, source)
            bound = identity(connection)
            if replaced is not None and bound is not None:
                keep_vectors(connection, replaced, document_id, bound)
            _drop_unreferenced(connection)
            next_generation(connection)
        self._sweep_files()
        return True

    def rename(self, kb: str, document_id: str, name: str, source: str) -> None:
        """Has a member of `kb` bear another name, because its file was moved to `source`."""
        with self._database.writing() as connection:
            replaced = _release_name(connection, kb, name, document_id)
            bound = identity(connection)
            if replaced is not None and bound is not None:
                keep_vectors(connection, replaced, document_id, bound)
            connection.execute(
                "UPDATE members SET name = ?, source = ? WHERE kb = ? AND document_id = ?",
                (name, os.fsencode(source), kb, document_id),
            )
            _drop_unreferenced(connection)
            next_generation(connection)
        self._sweep_files()

    def set_source(self, kb: str, document_id: str, source: str) -> None:
        """Remembers where a member's file lies now."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE members SET source = ? WHERE kb = ? AND document_id = ?",
                (os.fsencode(source), kb, document_id),
            )

    def remove(self, document_id: str, kb: str | None) -> bool:
        """Takes a document out of `kb` (None: out of all), erases it if no base is left; False if it was not there."""
        with self._database.writing() as connection:
            removed = connection.execute(
                "DELETE FROM members WHERE document_id = ? AND (? IS NULL OR kb = ?)", (document_id, kb, kb)
            ).rowcount
            _drop_unreferenced(connection)
            next_generation(connection)
        self._sweep_files()
        return removed > 0

    def replace_passages(
        self, documents: Sequence[tuple[str, Sequence[Passage], Vectors]], made_by: EmbedderIdentity
    ) -> None:
        """Puts new passages in place of all old ones; documents removed meanwhile are passed over.

        Raises:
            IngestError: `base_changed` where a document was added meanwhile, which would be left without passages.
        """
        with self._database.writing() as connection:
            stored = {row["id"] for row in connection.execute("SELECT id FROM documents WHERE trim(text) <> ''")}
            if stored - {document_id for document_id, _, _ in documents}:
                raise IngestError("base_changed", "A document was added while the base was rebuilt: rebuild it again.")
            connection.execute("DELETE FROM keywords")
            connection.execute("DELETE FROM passages")
            connection.execute("DELETE FROM former_vectors")
            for document_id, passages, vectors in documents:
                if document_id in stored:
                    text = connection.execute("SELECT text FROM documents WHERE id = ?", (document_id,)).fetchone()[0]
                    for passage, vector in zip(passages, vectors, strict=True):
                        words = passage_words(text[passage.start : passage.end])
                        blob = vector.astype("<f4").tobytes()
                        _insert_passage(connection, document_id, text, passage, words, blob)
            connection.execute("DELETE FROM meta WHERE key = 'embedder'")
            check_identity(connection, made_by, bind=True)
            next_generation(connection)

    def save_sections(self, document_id: str, budget: int, sections: Sequence[Section]) -> None:
        """Keeps the sections of a budget; the same document and budget give the same sections, so the first stays."""
        with self._database.writing() as connection:
            if _exists(connection, document_id):
                connection.executemany(
                    "INSERT OR IGNORE INTO sections VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                    [(document_id, budget, *astuple(section)) for section in sections],
                )

    def _sweep_files(self) -> None:
        # In a transaction of its own, after the commit: under the write lock nobody else is between storing a file and
        # committing its document, and a crash before this leaves a file too many, never one too few.
        with self._database.writing() as connection:
            stored = {row["id"] for row in connection.execute("SELECT id FROM documents")}
            for path in self._files.iterdir():
                if path.name.split(".")[0] not in stored:
                    path.unlink(missing_ok=True)


def passage_words(text: str) -> str:
    """What a passage is found by, with blanks between."""
    return " ".join(index_words(text))


def _exists(connection: sqlite3.Connection, document_id: str) -> bool:
    return connection.execute("SELECT 1 FROM documents WHERE id = ?", (document_id,)).fetchone() is not None


def _release_name(connection: sqlite3.Connection, kb: str, name: str, document_id: str) -> str | None:
    """Takes the name from another document, and says whose it was."""
    row = connection.execute(
        "DELETE FROM members WHERE kb = ? AND name = ? AND document_id <> ? RETURNING document_id",
        (kb, name, document_id),
    ).fetchone()
    return None if row is None else str(row[0])


def _join(connection: sqlite3.Connection, kb: str, document_id: str, name: str, source: str | None) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    connection.execute(
        "INSERT OR IGNORE INTO members (kb, document_id, name, added_at, source) VALUES (?,?,?,?,?)",
        # As bytes: not every path is Unicode.
        (kb, document_id, name, now, None if source is None else os.fsencode(source)),
    )


def _insert(connection: sqlite3.Connection, prepared: Prepared) -> None:
    document = prepared.document
    connection.execute(
        "INSERT INTO documents VALUES (?,?,?,?,?,?,?,?,?)",
        (
            document.id,
            document.title,
            document.kind,
            prepared.suffix,
            prepared.num_bytes,
            document.text,
            prepared.num_tokens,
            json.dumps([asdict(heading) for heading in document.headings]),
            json.dumps(document.warnings),
        ),
    )
    connection.executemany(
        "INSERT INTO pages VALUES (?,?,?,?,?,?)",
        [
            (document.id, page.number, page.label, start, start + len(page.text), page.origin)
            for page, start in zip(document.pages, document.page_starts, strict=True)
        ],
    )
    connection.executemany(
        "INSERT INTO paragraphs VALUES (?,?,?,?,?)",
        [(document.id, *astuple(paragraph)) for paragraph in prepared.paragraphs],
    )
    for passage, words in zip(prepared.passages, prepared.words, strict=True):
        _insert_passage(connection, document.id, document.text, passage, words, None)


def _insert_passage(
    connection: sqlite3.Connection, document_id: str, text: str, passage: Passage, words: str, vector: bytes | None
) -> None:
    known_by = text_hash(text[passage.start : passage.end])
    id_ = connection.execute(
        'INSERT INTO passages (document_id, number, page, start, "end", text_hash, vector) VALUES (?,?,?,?,?,?,?)',
        (document_id, *astuple(passage), known_by, vector),
    ).lastrowid
    connection.execute("INSERT INTO keywords (rowid, words) VALUES (?, ?)", (id_, words))


def _drop_unreferenced(connection: sqlite3.Connection) -> None:
    gone = "SELECT id FROM documents WHERE id NOT IN (SELECT document_id FROM members)"
    connection.execute(f"DELETE FROM keywords WHERE rowid IN (SELECT id FROM passages WHERE document_id IN ({gone}))")
    connection.execute(f"DELETE FROM documents WHERE id IN ({gone})")
