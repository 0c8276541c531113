"""Decides when the vector index is believed: it follows the store change by change, else it is made anew."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ingest.embed import Vectors
from ingest.identity import EmbedderIdentity, base_id, generation
from ingest.index import Ids, IndexHome, IndexState, VectorIndex, membership, vectors_from_blobs
from ingest.roster import Roster

_SPOT_CHECKS = 8
# Vectors are read from the store so many at a time: 16 MB.
_AT_ONCE = 10_000


class NearestPassages:
    """The passages nearest to a vector, as of the store's present state. Safe for several threads."""

    def __init__(self, home: IndexHome) -> None:
        self._home = home
        self._index: VectorIndex | None = None
        self._lock = threading.Lock()

    def search(
        self,
        connection: sqlite3.Connection,
        identity: EmbedderIdentity,
        roster: Roster,
        vector: Vectors,
        k: int,
        allowed: Ids | None,
    ) -> dict[int, float]:
        """Cosine by passage id, of the `k` nearest, nearest first.

        `connection` is in a transaction, whose state is what is searched, and `roster` is of that state or a later one.
        Ids that `connection` does not see may be among the results, and the caller leaves them out.
        """
        with self._lock:
            index = self._following(connection, identity, roster)
            return dict(index.search(vector, k, allowed))

    def cosines(
        self,
        connection: sqlite3.Connection,
        identity: EmbedderIdentity,
        roster: Roster,
        vector: Vectors,
        ids: Iterable[int],
    ) -> dict[int, float]:
        """Cosine by passage id, of those of `ids` that have a vector. Otherwise as `search`."""
        with self._lock:
            index = self._following(connection, identity, roster)
            found, vectors = index.vectors(np.fromiter(ids, dtype=np.int64))
            return dict(zip(found.tolist(), (vectors @ vector).tolist(), strict=True))

    def _following(self, connection: sqlite3.Connection, identity: EmbedderIdentity, roster: Roster) -> VectorIndex:
        wanted = IndexState(base_id(connection), generation(connection), identity.name, identity.dimension)
        index = self._index
        if index is None:
            index = self._home.load(wanted.base)
            if index is not None and (index.state.generation > wanted.generation or not _agrees(index, connection)):
                # What was kept is of another store, or of a state that this store was set back from.
                index = None
            elif index is not None:
                index.moved_to(-1)  # what it holds is compared with the store once, whatever generation it says
        state = None if index is None else index.state
        if index is None or state is None or replace(state, generation=wanted.generation) != wanted:
            state = replace(wanted, generation=-1)
            index = self._home.new(state)
        if state.generation < wanted.generation:
            num_added, num_removed = _catch_up(index, connection, roster)
            index.moved_to(wanted.generation)
            self._home.keep(index, num_added, num_removed)
        self._index = index
        return index


def _agrees(index: VectorIndex, connection: sqlite3.Connection) -> bool:
    """Whether the newest vectors of the index are what the store holds under the same ids."""
    newest = np.sort(index.ids)[-_SPOT_CHECKS:]
    stored_ids, stored = stored_vectors(connection, newest, index.state.dimension)
    held_ids, held = index.vectors(stored_ids)
    return np.array_equal(stored[np.argsort(stored_ids)], held[np.argsort(held_ids)])


def _catch_up(index: VectorIndex, connection: sqlite3.Connection, roster: Roster) -> tuple[int, int]:
    """Adds and removes what the index lacks and has too many; says how many were added and removed."""
    held, stored = index.ids, roster.ids
    num_removed = index.remove(held[~membership(held, stored)])
    new = stored[~membership(stored, held)]
    num_added = 0
    for start in range(0, len(new), _AT_ONCE):
        ids, vectors = stored_vectors(connection, new[start : start + _AT_ONCE], index.state.dimension)
        index.add(ids, vectors)
        num_added += len(ids)
    return num_added, num_removed


def stored_vectors(connection: sqlite3.Connection, ids: Ids, dimension: int) -> tuple[Ids, Vectors]:
    """Reads vectors from the store, of those passages that have one: ids of shape (n,), vectors of (n, dimension)."""
    rows = connection.execute(
        """SELECT id, vector FROM passages
           WHERE id IN (SELECT value FROM json_each(?)) AND vector IS NOT NULL""",
        (json.dumps(ids.tolist()),),
    ).fetchall()
    return (
        np.array([row[0] for row in rows], dtype=np.int64),
        vectors_from_blobs([row[1] for row in rows], dimension),
    )
