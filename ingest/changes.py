"""Decides how documents come and go: each change is one transaction, so that all of it is stored, or nothing."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ingest import successors
from ingest.database import Database, text_hash
from ingest.document import Document, Paragraph, Passage, Section
from ingest.embed import Vectors
from ingest.identity import EmbedderIdentity, check_identity, identity, next_generation
from ingest.keywords import index_words
from ingest.known_vectors import fill_in, keep_vectors
from ingest.sweep import mark, sweep
from ingest.tags import give_tags, tags_of_name


@dataclass(frozen=True)
class Prepared:
    """A document with everything that is worked out before the base is touched.

    The passages' vectors follow later (`ingest.embedding`): they take the most time, and are only a part of the search.

    Attributes:
        words: For each passage what it is found by, with blanks between.
        sections: Those of `section_tokens`, the budget that is set.
    """

    document: Document
    paragraphs: tuple[Paragraph, ...]
    passages: tuple[Passage, ...]
    words: tuple[str, ...]
    sections: tuple[Section, ...]
    section_tokens: int
    num_tokens: int
    suffix: str
    num_bytes: int


Cut = tuple[Sequence[Passage], Vectors]
"""The passages of a document, and their vectors, a row each."""


class _NotMadeError(Exception):
    """Ends a transaction that lacks the passages of a document."""


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
            tags = tags_of_name(connection, kb, name)
            replaced = _release_name(connection, kb, name, document.id)
            if not _exists(connection, document.id):
                _insert(connection, prepared)
                staged.replace(self._files / f"{document.id}{prepared.suffix}")
            _join(connection, kb, document.id, name, source)
            give_tags(connection, kb, document.id, tags)
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
            tags = tags_of_name(connection, kb, name)
            replaced = _release_name(connection, kb, name, document_id)
            _join(connection, kb, document_id, name, source)
            give_tags(connection, kb, document_id, tags)
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
            successors.rename(connection, kb, document_id, name)
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
        self, made: Callable[[str, str], Cut | None], made_by: EmbedderIdentity, run: str
    ) -> int | None:
        """Puts new passages in place of all old ones; returns their number.

        Args:
            run: Names the rebuild, so that it is known to have ended.
            made: Gives the new ones of a document id and its text. Where it has none (a document was added meanwhile)
                nothing is changed, and None returned.
        """
        try:
            with self._database.writing() as connection:
                num_passages = _replace_all(connection, made)
                connection.execute("DELETE FROM meta WHERE key = 'embedder'")
                check_identity(connection, made_by, bind=True)
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('rebuilt', ?)", (run,))
                mark(connection)
                next_generation(connection)
        except _NotMadeError:
            return None
        self._sweep_files()
        return num_passages

    def save_sections(self, document_id: str, budget: int, sections: Sequence[Section]) -> None:
        """Keeps the sections of a budget; the same document and budget give the same sections, so the first stays."""
        with self._database.writing() as connection:
            if _exists(connection, document_id):
                _insert_sections(connection, document_id, budget, sections)

    def _sweep_files(self) -> None:
        sweep(self._database, self._files)


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
    if row is None:
        return None
    successors.remember(connection, kb, name, str(row[0]))
    return str(row[0])


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
    _insert_sections(connection, document.id, prepared.section_tokens, prepared.sections)


def _insert_sections(
    connection: sqlite3.Connection, document_id: str, budget: int, sections: Sequence[Section]
) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO sections VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        [(document_id, budget, *astuple(section)) for section in sections],
    )


def insert_passages(
    connection: sqlite3.Connection, document_id: str, text: str, passages: Sequence[Passage], vectors: Vectors
) -> None:
    for passage, vector in zip(passages, vectors, strict=True):
        words = passage_words(text[passage.start : passage.end])
        _insert_passage(connection, document_id, text, passage, words, vector.astype("<f4").tobytes())


def insert_words(connection: sqlite3.Connection, id_: int, text: str) -> None:
    connection.execute("INSERT INTO keywords (rowid, words) VALUES (?, ?)", (id_, passage_words(text)))


def _insert_passage(
    connection: sqlite3.Connection, document_id: str, text: str, passage: Passage, words: str, vector: bytes | None
) -> None:
    known_by = text_hash(text[passage.start : passage.end])
    id_ = connection.execute(
        'INSERT INTO passages (document_id, number, page, start, "end", text_hash, vector) VALUES (?,?,?,?,?,?,?)',
        (document_id, *astuple(passage), known_by, vector),
    ).lastrowid
    connection.execute("INSERT INTO keywords (rowid, words) VALUES (?, ?)", (id_, words))


def _replace_all(connection: sqlite3.Connection, made: Callable[[str, str], Cut | None]) -> int:
    new_keywords(connection)
    connection.execute("DELETE FROM passages")
    connection.execute("DELETE FROM former_vectors")
    num_passages = 0
    for document_id, text in connection.execute("SELECT id, text FROM documents").fetchall():
        cut = made(document_id, text)
        if cut is None:
            raise _NotMadeError
        insert_passages(connection, document_id, text, *cut)
        num_passages += len(cut[0])
    return num_passages


def new_keywords(connection: sqlite3.Connection) -> None:
    # Dropped rather than emptied: a damaged index can't be emptied, and a large one is slow to.
    statement = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'keywords'").fetchone()[0]
    connection.execute("DROP TABLE keywords")
    connection.execute(statement)


def _drop_unreferenced(connection: sqlite3.Connection) -> None:
    successors.tidy(connection)
    gone = "SELECT id FROM documents WHERE id NOT IN (SELECT document_id FROM members)"
    connection.execute(f"DELETE FROM keywords WHERE rowid IN (SELECT id FROM passages WHERE document_id IN ({gone}))")
    if connection.execute(f"DELETE FROM documents WHERE id IN ({gone})").rowcount:
        mark(connection)
