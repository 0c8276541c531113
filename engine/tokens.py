"""Decides that a section is tokenised once: its ids are kept under the text, tokenizer and template they come from.

And that it is rendered once: the place it comes from leads to its ids, without its text.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from engine.cachefile import CacheFile
from engine.prompt import TEMPLATE_VERSION, Layout, SectionText, render

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (key BLOB PRIMARY KEY, ids BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS places (place BLOB PRIMARY KEY, document TEXT NOT NULL, key BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS places_by_document ON places (document);
CREATE INDEX IF NOT EXISTS places_by_key ON places (key);
"""


class SectionTokens:
    """Section ids on disk, content-addressed; an entry or a file that is damaged is made again.

    Args:
        path: The SQLite file.
        layout: What makes the ids where they are missing.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self._file = CacheFile(path, _SCHEMA)
        self._layout = layout
        self._made_from = f"{TEMPLATE_VERSION}\0{layout.tokenizer.fingerprint}\0".encode()

    def at_place(self, document: str, place: str, text: Callable[[], SectionText]) -> tuple[int, ...]:
        """The ids of a section of `document`; its text is asked for only where they are not there yet.

        Args:
            place: Has to be another one whenever the text there might be another one.
        """
        name = hashlib.sha256(self._made_from + f"{document}\0{place}".encode()).digest()
        key = self._file.run(
            lambda connection: connection.execute("SELECT key FROM places WHERE place = ?", (name,)).fetchone()
        )
        stored = None if key is None else self._file.run(lambda connection: _read(connection, key[0]))
        if stored is not None:
            return stored
        section = text()
        ids = self.get_or_make(section)
        self._file.run(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO places VALUES (?, ?, ?)", (name, document, self._key(section))
            )
        )
        return ids

    def get_or_make(self, section: SectionText) -> tuple[int, ...]:
        """The ids of `Layout.section_ids(section)`, from disk if they are there."""
        key = self._key(section)
        stored = self._file.run(lambda connection: _read(connection, key))
        if stored is not None:
            return stored
        ids = self._layout.section_ids(section)
        packed = np.asarray(ids, dtype="<i4").tobytes()
        self._file.run(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO tokens VALUES (?, ?, ?)", (key, packed, hashlib.sha256(packed).digest())
            )
        )
        return ids

    def close(self) -> None:
        self._file.close()

    def _key(self, section: SectionText) -> bytes:
        return hashlib.sha256(self._made_from + render(section).encode()).digest()


def keep_only(path: Path, documents: Collection[str]) -> None:
    """Erases the ids of all sections whose document is not among `documents`.

    Args:
        path: As `SectionTokens`; nothing is made where there is no such file.
    """
    CacheFile.run_where_there_is_one(path, _SCHEMA, lambda connection: _keep_only(connection, documents))


def _keep_only(connection: sqlite3.Connection, documents: Collection[str]) -> None:
    known = {document for (document,) in connection.execute("SELECT DISTINCT document FROM places")}
    for document in known - set(documents):
        connection.execute("DELETE FROM places WHERE document = ?", (document,))
    # Entries without a place are of a document that was removed, or of a version that kept no places.
    connection.execute("DELETE FROM tokens WHERE NOT EXISTS (SELECT 1 FROM places WHERE key = tokens.key)")


def _read(connection: sqlite3.Connection, key: bytes) -> tuple[int, ...] | None:
    row = connection.execute("SELECT ids, digest FROM tokens WHERE key = ?", (key,)).fetchone()
    if row is None or hashlib.sha256(row[0]).digest() != row[1]:
        return None
    return tuple(np.frombuffer(row[0], dtype="<i4").tolist())
