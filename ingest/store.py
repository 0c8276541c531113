"""Decides what is kept of a document and how it is asked for: SQLite is the one truth."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ingest.database import Database
from ingest.document import Document, DocumentKind, Heading, IngestError, Page, Paragraph, Passage, Section

Status = Literal["ok", "no_text"]


@dataclass(frozen=True)
class StoredDocument:
    """A member of a knowledge base.

    Attributes:
        name: The file's name in this base.
        status: "no_text" where nothing can be asked (a scan).
        tokens: What reading all of it costs a model, estimated.
        embedded: How many of its passages are found by meaning by now; all are found by their words.
        added_at: UTC, ISO 8601.
        source: Where the file lay when it was added, None where that is not known.
        tags: What it was given in this base, in order.
    """

    id: str
    kb: str
    name: str
    title: str
    kind: DocumentKind
    status: Status
    pages: int
    passages: int
    embedded: int
    tokens: int
    num_bytes: int
    added_at: str
    warnings: tuple[str, ...]
    source: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def is_embedding(self) -> bool:
        return self.embedded < self.passages


class Store:
    """Reads documents, their parts and the bases that they belong to; `ingest.changes` writes them."""

    def __init__(self, database: Database, files: Path) -> None:
        self._database = database
        self._files = files

    def file(self, document_id: str, suffix: str) -> Path:
        return self._files / f"{document_id}{suffix}"

    def member(self, kb: str, name: str) -> str | None:
        """The id of the document called `name` in `kb`."""
        return self._value("SELECT document_id FROM members WHERE kb = ? AND name = ?", kb, name)

    def source_of(self, kb: str, document_id: str) -> str | None:
        for row in self._rows("SELECT source FROM members WHERE kb = ? AND document_id = ?", kb, document_id):
            return _path(row["source"])
        return None

    def name_at(self, kb: str, source: str) -> str | None:
        """What the member of `kb` is called that came from `source`."""
        return self._value("SELECT name FROM members WHERE kb = ? AND source = ?", kb, os.fsencode(source))

    def name_of(self, kb: str, document_id: str) -> str | None:
        return self._value("SELECT name FROM members WHERE kb = ? AND document_id = ?", kb, document_id)

    def is_stored(self, document_id: str) -> bool:
        return self._value("SELECT 1 FROM documents WHERE id = ?", document_id) is not None

    def suffix(self, document_id: str) -> str:
        return str(self._row(document_id)["suffix"])

    def kbs(self) -> tuple[str, ...]:
        return tuple(row["kb"] for row in self._rows("SELECT DISTINCT kb FROM members ORDER BY kb"))

    def documents(self, kb: str | None, document_id: str | None = None) -> tuple[StoredDocument, ...]:
        """Members of `kb` (None: of all), in the order in which they were added; of one document where it is named."""
        rows = self._rows(
            """SELECT d.id, m.kb, m.name, d.title, d.kind, d.num_tokens, d.num_bytes, m.added_at, d.warnings, m.source,
                   (SELECT count(*) FROM pages WHERE document_id = d.id) AS pages,
                   (SELECT count(*) FROM passages WHERE document_id = d.id) AS passages,
                   (SELECT count(*) FROM passages WHERE document_id = d.id AND vector IS NULL) AS missing,
                   (SELECT json_group_array(tag) FROM tags t WHERE t.kb = m.kb AND t.document_id = d.id) AS tags
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
                row["passages"] - row["missing"],
                row["num_tokens"],
                row["num_bytes"],
                row["added_at"],
                tuple(json.loads(row["warnings"])),
                _path(row["source"]),
                tuple(sorted(json.loads(row["tags"]))),
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
        rows = self._rows(
            'SELECT number, label, start, "end", origin FROM pages WHERE document_id = ? ORDER BY 1', document_id
        )
        return tuple(Page(row["number"], text[row["start"] : row["end"]], row["label"], row["origin"]) for row in rows)

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


def _path(source: bytes | None) -> str | None:
    return None if source is None else os.fsdecode(source)
