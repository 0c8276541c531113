"""Decides what is true of a vector search: every cosine worked out with NumPy. What the other kinds are held to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ingest.embed import Vectors
from ingest.index import Ids, IndexState, membership, ranked


class ExactIndex:
    """Obeys `ingest.index.VectorIndex`, in memory.

    Args:
        state: What its vectors will be.
    """

    def __init__(self, state: IndexState) -> None:
        self._state = state
        self._ids: Ids = np.empty(0, dtype=np.int64)
        self._vectors: Vectors = np.empty((0, state.dimension), dtype=np.float32)

    @property
    def state(self) -> IndexState:
        return self._state

    @property
    def ids(self) -> Ids:
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Ids, vectors: Vectors) -> None:
        self._ids = np.concatenate([self._ids, ids])
        self._vectors = np.concatenate([self._vectors, vectors.astype(np.float32)])

    def remove(self, ids: Ids) -> int:
        gone = membership(self._ids, ids)
        self._ids, self._vectors = self._ids[~gone], self._vectors[~gone]
        return int(gone.sum())

    def moved_to(self, generation: int) -> None:
        self._state = replace(self._state, generation=generation)

    def search(self, vector: Vectors, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        ids, vectors = (self._ids, self._vectors) if allowed is None else self.vectors(allowed)
        return ranked(ids, vectors @ vector, k)

    def vectors(self, ids: Ids) -> tuple[Ids, Vectors]:
        there = membership(self._ids, ids)
        return self._ids[there], self._vectors[there]
