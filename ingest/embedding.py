"""Decides how passages come by their vectors after their text is stored: longest first, a batch a transaction.

What is missing is asked of the store each time, so whoever comes next goes on where a killed process stopped. One at a
time a home embeds, whatever processes there are: nothing is done twice.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from ingest.database import Database
from ingest.embed import Embedder
from ingest.identity import EmbedderIdentity, check_identity, next_generation
from ingest.read import Progress

BATCH = 64
"""Passages of one transaction: what a crash may cost, two or three seconds with the packaged English model."""
# Passages of like length are embedded together: a batch costs as much as its longest.
_WINDOW = 512
_LOOK_S = 0.2


class Embedding:
    """Embeds what has no vector. Safe for several threads and processes.

    Args:
        lock: A file that whoever embeds holds; the kernel lets go of it when he dies.
    """

    def __init__(self, database: Database, lock: Path) -> None:
        self._database = database
        self._lock = lock

    def missing(self, document_ids: Iterable[str] | None = None) -> int:
        """How many passages, of all documents or of those named, have no vector."""
        return _missing(self._database.connection, document_ids)

    def run(
        self,
        embedder: Embedder,
        document_ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
    ) -> int:
        """Returns when no passage (of `document_ids`, None: of any) is without a vector, with how many it embedded.

        Args:
            stop: Ends it after the batch at hand.

        Raises:
            IngestError: `embedder_changed` where the base got another embedder meanwhile.
        """
        total = self.missing(document_ids)
        num_embedded = 0
        while (left := self.missing(document_ids)) and not (stop is not None and stop.is_set()):
            total = max(total, left)
            if progress:
                progress("embed", total - left, total)
            try:
                with FileLock(self._lock, timeout=_LOOK_S):
                    num_embedded += self._embed_window(embedder, document_ids, stop, progress, total)
            except Timeout:
                continue  # another one embeds; what we wait for is among what he has to do
        if progress and total:
            progress("embed", total, total)
        return num_embedded

    def _embed_window(
        self,
        embedder: Embedder,
        document_ids: Sequence[str] | None,
        stop: threading.Event | None,
        progress: Progress | None,
        total: int,
    ) -> int:
        made_by = EmbedderIdentity(embedder.name, embedder.dimension)
        with self._database.reading() as connection:
            check_identity(connection, made_by, bind=False)
            waiting = _waiting(connection, document_ids)
        waiting.sort(key=lambda one: -len(one[1]))
        done = 0
        for start in range(0, len(waiting), BATCH):
            if stop is not None and stop.is_set():
                break
            batch = waiting[start : start + BATCH]
            vectors = embedder.embed_passages([text for _, text in batch])
            with self._database.writing() as connection:
                check_identity(connection, made_by, bind=False)
                for (known_by, _), vector in zip(batch, vectors, strict=True):
                    connection.execute(
                        "UPDATE passages SET vector = ? WHERE text_hash = ? AND vector IS NULL",
                        (vector.astype("<f4").tobytes(), known_by),
                    )
                next_generation(connection)
            done += len(batch)
            if progress:
                left = self.missing(document_ids)
                progress("embed", max(0, total - left), max(total, left))
        return done


def _of(document_ids: Iterable[str] | None) -> tuple[str, list[str]]:
    ids = None if document_ids is None else list(document_ids)
    return ("", []) if ids is None else (f" AND p.document_id IN ({','.join('?' * len(ids))})", ids)


def _missing(connection: sqlite3.Connection, document_ids: Iterable[str] | None) -> int:
    condition, values = _of(document_ids)
    row = connection.execute(f"SELECT count(*) FROM passages p WHERE p.vector IS NULL{condition}", values).fetchone()
    return int(row[0])


def _waiting(connection: sqlite3.Connection, document_ids: Iterable[str] | None) -> list[tuple[bytes, str]]:
    """The next texts, each once, by what they are known by; those of the first documents first."""
    condition, values = _of(document_ids)
    rows = connection.execute(
        f"""SELECT p.text_hash, p.document_id, p.start, p."end" FROM passages p
            WHERE p.vector IS NULL{condition} ORDER BY p.id LIMIT ?""",
        (*values, _WINDOW),
    ).fetchall()
    texts: dict[str, str] = {}
    found: dict[bytes, str] = {}
    for known_by, document_id, start, end in rows:
        if document_id not in texts:
            texts[document_id] = connection.execute(
                "SELECT text FROM documents WHERE id = ?", (document_id,)
            ).fetchone()[0]
        found[known_by] = texts[document_id][start:end]
    return list(found.items())
