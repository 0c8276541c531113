"""Decides that a section is tokenised once: its ids are kept under the text, tokenizer and template they come from."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import numpy as np

from engine.cachefile import CacheFile
from engine.prompt import TEMPLATE_VERSION, Layout, SectionText, render

_SCHEMA = "CREATE TABLE IF NOT EXISTS tokens (key BLOB PRIMARY KEY, ids BLOB NOT NULL, digest BLOB NOT NULL)"


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

    def get_or_make(self, section: SectionText) -> tuple[int, ...]:
        """The ids of `Layout.section_ids(section)`, from disk if they are there."""
        key = hashlib.sha256(self._made_from + render(section).encode()).digest()
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


def _read(connection: sqlite3.Connection, key: bytes) -> tuple[int, ...] | None:
    row = connection.execute("SELECT ids, digest FROM tokens WHERE key = ?", (key,)).fetchone()
    if row is None or hashlib.sha256(row[0]).digest() != row[1]:
        return None
    return tuple(np.frombuffer(row[0], dtype="<i4").tolist())
