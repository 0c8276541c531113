"""Decides what a vector index is: vectors by id, searched among ids that the store allows, for one state of a store.

It is a copy that can be made again: the vectors' truth is in the store. `index_faiss`, `index_exact` and
`index_pgvector` are its kinds, `vectors` decides when one is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ingest.embed import Vectors

INDEX_FILE = "passages.faiss"
"""In a home: the file of those kinds that are kept in one."""

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class IndexState:
    """What the vectors in an index are: `base` names the store for ever, `generation` is its count of changes."""

    base: str
    generation: int
    embedder: str
    dimension: int


class VectorIndex(Protocol):
    """Vectors by id. Not safe for several threads at once: its owner holds a lock."""

    @property
    def state(self) -> IndexState:
        """Fixed base, embedder and dimension; the generation moves on with `moved_to`."""
        ...

    @property
    def ids(self) -> Ids:
        """All ids, in no order."""
        ...

    def __len__(self) -> int: ...

    def add(self, ids: Ids, vectors: Vectors) -> None:
        """Adds unit vectors of shape (len(ids), dimension); the ids must be new."""
        ...

    def remove(self, ids: Ids) -> int:
        """Removes ids and says how many were there."""
        ...

    def moved_to(self, generation: int) -> None:
        """What was added and removed up to now makes the index that of `generation`."""
        ...

    def search(self, vector: Vectors, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        """The `k` nearest (id, cosine) among `allowed` (None: all), nearest first, the lower id first where equal."""
        ...

    def vectors(self, ids: Ids) -> tuple[Ids, Vectors]:
        """Those of `ids` that are there, and their vectors, shape (n, dimension)."""
        ...


class IndexHome(Protocol):
    """Where an index is kept between runs."""

    def load(self, base: str) -> VectorIndex | None:
        """What is kept, at best of the store called `base`; None where nothing is, or it is damaged."""
        ...

    def new(self, state: IndexState) -> VectorIndex:
        """An empty one, in place of what was kept."""
        ...

    def keep(self, index: VectorIndex, num_added: int, num_removed: int) -> None:
        """Told after each change. How much of it is written at once is the home's own affair; it never fails for that
        an index can't be written that can be made again."""
        ...


def open_home(setting: str, path: Path) -> IndexHome:
    """The home that `IngestSettings.vector_index` names. Imports nothing heavy.

    Args:
        path: The file of those kinds that are kept in one.
    """
    if setting.startswith(("postgresql://", "postgres://")):
        from ingest.index_pgvector import PgvectorHome

        return PgvectorHome(setting)
    from ingest.index_exact import ExactIndex
    from ingest.index_faiss import FaissIndex
    from ingest.index_file import FileHome

    return FileHome(path, ExactIndex if setting == "numpy" else FaissIndex)


def ranked(ids: Ids, scores: npt.NDArray[np.floating[Any]], k: int) -> list[tuple[int, float]]:
    """The `k` best (id, score), best first, the lower id first where equal."""
    if k < len(ids):
        # All that are as good as the k-th stay for now, so that ids decide among them.
        kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        ids, scores = ids[kept], scores[kept]
    order = np.lexsort((ids, -scores))[:k]
    return list(zip(ids[order].tolist(), scores[order].tolist(), strict=True))


def membership(ids: Ids, of: Ids) -> npt.NDArray[np.bool_]:
    """For each of `ids`, none below 0, whether it is in `of`: by a table, some ten times faster than sorting."""
    table = np.zeros(max(int(ids.max(initial=-1)), int(of.max(initial=-1))) + 1, dtype=np.bool_)
    table[of] = True
    return table[ids]


def vectors_from_blobs(blobs: list[bytes], dimension: int) -> Vectors:
    """Stacks little-endian float32 rows as the store keeps them into shape (len(blobs), dimension)."""
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), dimension)
