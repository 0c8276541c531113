"""Decides what is kept of a document and how it comes and goes: SQLite is the truth, each change one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ingest.database import Database
from ingest.document import Document, DocumentKind, Heading, IngestError, Page, Paragraph, Passage, Section
from ingest.embed import Vectors
from ingest.index import Ids, vectors_from_blobs
from ingest.keywords import index_words

Status = Literal["ok", "no_text"]


@dataclass(frozen=True)
class StoredDocument:
    """A member of a knowledge base.

    Attributes:
        name: The file's name in this base.
        status: "no_text" where nothing can be asked (a scan).
        tokens: What reading all of it costs a model, estimated.
        added_at: UTC, ISO 8601.
    """

    id: str
    kb: str
    name: str
    title: str
    kind: DocumentKind
    status: Status
    pages: int
    passages: int
    tokens: int
    num_bytes: int
    added_at: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """A document with everything that is worked out before the base is touched. `vectors`: one row a passage."""

    document: Document
    paragraphs: tuple[Paragraph, ...]
    passages: tuple[Passage, ...]
    vectors: Vectors
    num_tokens: int
    suffix: str
    num_bytes: int


@dataclass(frozen=True)
class EmbedderIdentity:
    """Which embedder made the vectors of a base."""

    name: str
    dimension: int
    normalised: bool = True


class Store:
    """Documents, their parts and the bases that they belong to."""

    def __init__(self, database: Database, files: Path) -> None:
        self._database = database
        self._files = files

    # -- changing

    def add(self, prepared: Prepared, kb: str, name: str, identity: EmbedderIdentity, staged: Path) -> None:
        """Adds a document to `kb` under `name`, in place of what had that name there; moves `staged` to its files.

        Raises:
            IngestError: `embedder_changed`.
        """
        document = prepared.document
        with self._database.writing() as connection:
            check_identity(connection, identity, bind=bool(prepared.passages))
            _release_name(connection, kb, name, document.id)
            if not _exists(connection, document.id):
                _insert(connection, prepared)
                staged.replace(self.file(document.id, prepared.suffix))
            _join(connection, kb, document.id, name)
            _drop_unreferenced(connection)
            _next_generation(connection)
        self._sweep_files()

    def join(self, kb: str, document_id: str, name: str) -> bool:
        """Makes a stored document a member of `kb`, in place of what had that name there; False if it is not stored."""
        with self._database.writing() as connection:
            if not _exists(connection, document_id):
                return False
            _release_name(connection, kb, name, document_id)
            _join(connection, kb, document_id, name)
            _drop_unreferenced(connection)
            _next_generation(connection)
        self._sweep_files()
        return True

    def remove(self, document_id: str, kb: str | None) -> bool:
        """Takes a document out of `kb` (None: out of all), erases it if no base is left; False if it was not there."""
        with self._database.writing() as connection:
            removed = connection.execute(
                "DELETE FROM members WHERE document_id = ? AND (? IS NULL OR kb = ?)", (document_id, kb, kb)
            ).rowcount
            _drop_unreferenced(connection)
            _next_generation(connection)
        self._sweep_files()
        return removed > 0

    def replace_passages(
        self, documents: Sequence[tuple[str, Sequence[Passage], Vectors]], identity: EmbedderIdentity
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
            for document_id, passages, vectors in documents:
                if document_id in stored:
                    text = connection.execute("SELECT text FROM documents WHERE id = ?", (document_id,)).fetchone()[0]
                    _insert_passages(connection, document_id, text, passages, vectors)
            connection.execute("DELETE FROM meta WHERE key = 'embedder'")
            check_identity(connection, identity, bind=True)
            _next_generation(connection)

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

    # -- asking

    def check_identity(self, wanted: EmbedderIdentity) -> None:
        """Refuses an embedder that the base was not made with, before any work is done.

        Raises:
            IngestError: `embedder_changed`.
        """
        with self._database.reading() as connection:
            check_identity(connection, wanted, bind=False)

    def file(self, document_id: str, suffix: str) -> Path:
        return self._files / f"{document_id}{suffix}"

    def member(self, kb: str, name: str) -> str | None:
        """The id of the document called `name` in `kb`."""
        return self._value("SELECT document_id FROM members WHERE kb = ? AND name = ?", kb, name)

    def name_of(self, kb: str, document_id: str) -> str | None:
        return self._value("SELECT name FROM members WHERE kb = ? AND document_id = ?", kb, document_id)

    def is_stored(self, document_id: str) -> bool:
        return _exists(self._database.connection, document_id)

    def suffix(self, document_id: str) -> str:
        return str(self._row(document_id)["suffix"])

    def kbs(self) -> tuple[str, ...]:
        return tuple(row["kb"] for row in self._rows("SELECT DISTINCT kb FROM members ORDER BY kb"))

    def documents(self, kb: str | None, document_id: str | None = None) -> tuple[StoredDocument, ...]:
        """Members of `kb` (None: of all), in the order in which they were added; of one document where it is named."""
        rows = self._rows(
            """SELECT d.id, m.kb, m.name, d.title, d.kind, d.num_tokens, d.num_bytes, m.added_at, d.warnings,
                   (SELECT count(*) FROM pages WHERE document_id = d.id) AS pages,
                   (SELECT count(*) FROM passages WHERE document_id = d.id) AS passages
               FROM members m JOIN documents d ON d.id = m.document_id
               WHERE (? IS NULL OR m.kb = ?) AND (? IS NULL OR d.id = ?) ORDER BY m.added_at, m.rowid""",
            kb,
            kb,
            document_id,
            document_id,
        )
        return tuple(
            StoredDocument(
                row["id"],
                row["kb"],
                row["name"],
                row["title"],
                row["kind"],
                "ok" if row["passages"] else "no_text",
                row["pages"],
                row["passages"],
                row["num_tokens"],
                row["num_bytes"],
                row["added_at"],
                tuple(json.loads(row["warnings"])),
            )
            for row in rows
        )

    def text(self, document_id: str) -> str:
        return str(self._row(document_id)["text"])

    def document(self, document_id: str) -> Document:
        """The document as it was read."""
        row = self._row(document_id)
        return Document(
            row["id"],
            row["title"],
            row["kind"],
            self._pages(document_id, row["text"]),
            tuple(Heading(**heading) for heading in json.loads(row["headings"])),
            tuple(json.loads(row["warnings"])),
        )

    def pages(self, document_id: str) -> tuple[Page, ...]:
        return self._pages(document_id, self.text(document_id))

    def _pages(self, document_id: str, text: str) -> tuple[Page, ...]:
        rows = self._rows('SELECT number, label, start, "end" FROM pages WHERE document_id = ? ORDER BY 1', document_id)
        return tuple(Page(row["number"], text[row["start"] : row["end"]], row["label"]) for row in rows)

    def paragraphs(self, document_id: str) -> tuple[Paragraph, ...]:
        self._row(document_id)
        rows = self._rows(
            'SELECT number, page, start, "end" FROM paragraphs WHERE document_id = ? ORDER BY 1', document_id
        )
        return tuple(Paragraph(*row) for row in rows)

    def passages(self, document_id: str) -> tuple[Passage, ...]:
        self._row(document_id)
        rows = self._rows(
            'SELECT number, page, start, "end" FROM passages WHERE document_id = ? ORDER BY 1', document_id
        )
        return tuple(Passage(*row) for row in rows)

    def sections(self, document_id: str, budget: int) -> tuple[Section, ...]:
        """The kept sections of a budget; empty where none were kept."""
        rows = self._rows(
            """SELECT number, title, start, "end", first_page, last_page, first_paragraph, last_paragraph, num_tokens
               FROM sections WHERE document_id = ? AND budget = ? ORDER BY 1""",
            document_id,
            budget,
        )
        return tuple(Section(*row) for row in rows)

    def _row(self, document_id: str) -> sqlite3.Row:
        row = self._database.connection.execute("SELECT * FROM documents WHERE id = ?", (document_id,)).fetchone()
        if row is None:
            raise IngestError("not_found", f"There is no document {document_id}: `readonce ls` shows what there is.")
        assert isinstance(row, sqlite3.Row)
        return row

    def _rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        return self._database.connection.execute(query, values).fetchall()

    def _value(self, query: str, *values: object) -> str | None:
        row = self._database.connection.execute(query, values).fetchone()
        return None if row is None else str(row[0])


def generation(connection: sqlite3.Connection) -> int:
    """How often the base was changed."""
    return int(connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0])


def base_id(connection: sqlite3.Connection) -> str:
    """A name for this base that no other ever has."""
    return str(connection.execute("SELECT value FROM meta WHERE key = 'base'").fetchone()[0])


def identity(connection: sqlite3.Connection) -> EmbedderIdentity | None:
    """The embedder of the base; None before its first passage."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
    return None if row is None else EmbedderIdentity(**json.loads(row["value"]))


def check_identity(connection: sqlite3.Connection, wanted: EmbedderIdentity, *, bind: bool) -> None:
    """Refuses vectors of another embedder than the base's; `bind` makes `wanted` the base's where it has none yet.

    Raises:
        IngestError: `embedder_changed`.
    """
    kept = identity(connection)
    if kept is None and bind:
        connection.execute("INSERT INTO meta VALUES ('embedder', ?)", (json.dumps(asdict(wanted)),))
    if kept is not None and kept != wanted:
        raise IngestError(
            "embedder_changed",
            f"This base was made with the embedder {kept.name} ({kept.dimension} dimensions), the settings ask for "
            f'{wanted.name} ({wanted.dimension}): set embedder to "{kept.name}", or rebuild the base.',
        )


def vectors_by_id(connection: sqlite3.Connection, ids: Iterable[int], dimension: int) -> tuple[Ids, Vectors]:
    """Reads vectors from the store: ids of shape (n,) and vectors of shape (n, dimension)."""
    import numpy as np

    found = [
        (id_, row[0])
        for id_ in ids
        if (row := connection.execute("SELECT vector FROM passages WHERE id = ?", (id_,)).fetchone()) is not None
    ]
    return (
        np.array([id_ for id_, _ in found], dtype=np.int64),
        vectors_from_blobs([blob for _, blob in found], dimension),
    )


def _exists(connection: sqlite3.Connection, document_id: str) -> bool:
    return connection.execute("SELECT 1 FROM documents WHERE id = ?", (document_id,)).fetchone() is not None


def _release_name(connection: sqlite3.Connection, kb: str, name: str, document_id: str) -> None:
    connection.execute("DELETE FROM members WHERE kb = ? AND name = ? AND document_id <> ?", (kb, name, document_id))


def _join(connection: sqlite3.Connection, kb: str, document_id: str, name: str) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    connection.execute("INSERT OR IGNORE INTO members VALUES (?,?,?,?)", (kb, document_id, name, now))


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
        "INSERT INTO pages VALUES (?,?,?,?,?)",
        [
            (document.id, page.number, page.label, start, start + len(page.text))
            for page, start in zip(document.pages, document.page_starts, strict=True)
        ],
    )
    connection.executemany(
        "INSERT INTO paragraphs VALUES (?,?,?,?,?)",
        [(document.id, *astuple(paragraph)) for paragraph in prepared.paragraphs],
    )
    _insert_passages(connection, document.id, document.text, prepared.passages, prepared.vectors)


def _insert_passages(
    connection: sqlite3.Connection, document_id: str, text: str, passages: Sequence[Passage], vectors: Vectors
) -> None:
    for passage, vector in zip(passages, vectors, strict=True):
        id_ = connection.execute(
            'INSERT INTO passages (document_id, number, page, start, "end", vector) VALUES (?,?,?,?,?,?)',
            (document_id, *astuple(passage), vector.astype("<f4").tobytes()),
        ).lastrowid
        words = " ".join(index_words(text[passage.start : passage.end]))
        connection.execute("INSERT INTO keywords (rowid, words) VALUES (?, ?)", (id_, words))


def _drop_unreferenced(connection: sqlite3.Connection) -> None:
    gone = "SELECT id FROM documents WHERE id NOT IN (SELECT document_id FROM members)"
    connection.execute(f"DELETE FROM keywords WHERE rowid IN (SELECT id FROM passages WHERE document_id IN ({gone}))")
    connection.execute(f"DELETE FROM documents WHERE id IN ({gone})")


def _next_generation(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'")
