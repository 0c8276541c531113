"""Decides when the vector index is believed: it follows the store change by change, else it is made anew."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ingest.embed import Vectors
from ingest.identity import EmbedderIdentity, base_id, generation
from ingest.index import Ids, IndexState, VectorIndex, load_index, vectors_from_blobs

_SPOT_CHECKS = 8
_VECTOR = "SELECT vector FROM passages WHERE id = ? AND vector IS NOT NULL"


class NearestPassages:
    """The passages nearest to a vector, as of the store's present state. Safe for several threads.

    Args:
        path: Where the index is kept between runs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._index: VectorIndex | None = None
        self._lock = threading.Lock()

    def search(
        self,
        connection: sqlite3.Connection,
        identity: EmbedderIdentity,
        vector: Vectors,
        k: int,
        allowed: Ids | None,
        also: Iterable[int] = (),
    ) -> dict[int, float]:
        """Cosine by passage id: of the `k` nearest, nearest first, and of `also`.

        `connection` is in a transaction, whose state is what is searched. Another thread may have searched a later
        state already: ids that `connection` does not see may be among the results, and the caller leaves them out.
        """
        with self._lock:
            index = self._following(connection, identity)
            found = dict(index.search(vector, k, allowed))
            held = index.held(id_ for id_ in also if id_ not in found)
            return found | {id_: float(index.vector(id_) @ vector) for id_ in held}

    def _following(self, connection: sqlite3.Connection, identity: EmbedderIdentity) -> VectorIndex:
        wanted = IndexState(base_id(connection), generation(connection), identity.name, identity.dimension)
        index = self._index
        if index is None:
            index = load_index(self._path)
            if index is not None and (index.state.generation > wanted.generation or not _agrees(index, connection)):
                # The file is of another store, or of a state that this store was set back from.
                index = None
        if index is None or replace(index.state, generation=wanted.generation) != wanted:
            index = VectorIndex(replace(wanted, generation=-1))
        if index.state.generation < wanted.generation:
            _catch_up(index, connection)
            index.state = wanted
            self._index = index
            try:
                index.save(self._path)
            except OSError:
                # The copy only saves time: a full disk or a home that can't be written is no reason not to answer.
                self._path.unlink(missing_ok=True)
        self._index = index
        return index


def _agrees(index: VectorIndex, connection: sqlite3.Connection) -> bool:
    """Whether the newest vectors of the index are what the store holds under the same ids."""
    newest = np.sort(index.ids)[-_SPOT_CHECKS:]
    ids, vectors = _stored_vectors(connection, (int(id_) for id_ in newest), index.state.dimension)
    return all(np.array_equal(index.vector(int(id_)), vector) for id_, vector in zip(ids, vectors, strict=True))


def _catch_up(index: VectorIndex, connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT id FROM passages WHERE vector IS NOT NULL")
    stored = np.array([row[0] for row in rows], dtype=np.int64)
    held = index.ids
    index.remove(np.setdiff1d(held, stored))
    new = np.setdiff1d(stored, held)
    index.add(*_stored_vectors(connection, (int(id_) for id_ in new), index.state.dimension))


def _stored_vectors(connection: sqlite3.Connection, ids: Iterable[int], dimension: int) -> tuple[Ids, Vectors]:
    """Reads vectors from the store: ids of shape (n,) and vectors of shape (n, dimension)."""
    found = [(id_, row[0]) for id_ in ids if (row := connection.execute(_VECTOR, (id_,)).fetchone()) is not None]
    return (
        np.array([id_ for id_, _ in found], dtype=np.int64),
        vectors_from_blobs([blob for _, blob in found], dimension),
    )
