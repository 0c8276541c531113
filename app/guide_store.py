"""Decides where source guides are kept: beside the documents they tell of, for as long as those are there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from engine.cachefile import CacheFile

GUIDES_NAME = "guides.sqlite3"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS guides (
    document TEXT NOT NULL, made_by TEXT NOT NULL, summary TEXT NOT NULL, questions TEXT NOT NULL,
    PRIMARY KEY (document, made_by));
"""


@dataclass(frozen=True)
class Guide:
    """What the model says of a document. Empty where it had nothing to say that could be used."""

    summary: str
    questions: tuple[str, ...]


class GuideStore:
    """Guides by document, that is by the hash of its bytes: another version has another one. Safe for threads.

    Args:
        home: Where the file lies.
        made_by: The model and the way it is asked: guides of another are made again.
    """

    def __init__(self, home: Path, made_by: str) -> None:
        self._file = CacheFile(home / GUIDES_NAME, _SCHEMA)
        self._made_by = made_by

    def get(self, doc_id: str) -> Guide | None:
        """Blocking."""
        row = self._file.run(
            lambda connection: connection.execute(
                "SELECT summary, questions FROM guides WHERE document = ? AND made_by = ?", (doc_id, self._made_by)
            ).fetchone()
        )
        return None if row is None else Guide(row[0], tuple(json.loads(row[1])))

    def put(self, doc_id: str, guide: Guide) -> None:
        """Blocking."""
        values = doc_id, self._made_by, guide.summary, json.dumps(guide.questions, ensure_ascii=False)
        self._file.run(
            lambda connection: connection.execute("INSERT OR REPLACE INTO guides VALUES (?, ?, ?, ?)", values)
        )

    def close(self) -> None:
        self._file.close()


def keep_guides_of(home: Path, documents: Collection[str]) -> None:
    """Erases the guides of all documents that are not among `documents`; makes no file. Blocking."""
    CacheFile.run_where_there_is_one(home / GUIDES_NAME, _SCHEMA, lambda connection: _keep_only(connection, documents))


def _keep_only(connection: sqlite3.Connection, documents: Collection[str]) -> None:
    guided = {row[0] for row in connection.execute("SELECT document FROM guides")}
    connection.executemany("DELETE FROM guides WHERE document = ?", [(gone,) for gone in guided - set(documents)])
