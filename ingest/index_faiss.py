"""Decides how vectors are searched by default: FAISS, exact, and quick at any size; the one home of faiss.

A large index is gone through twice: all of it rounded to a byte a component, which is a quarter to read; then in full
what can be among the nearest. How far rounding can have moved a cosine is known, so nothing is missed: where the first
pass can't rule that out, all is gone through in full. Measured on one core of an AMD EPYC with 100,000 vectors of 384
components: 3 ms instead of 14.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ingest.embed import Vectors
from ingest.index import Ids, IndexState, membership, ranked

# Below that, going through all in full takes 3 ms at most.
ROUNDED_FROM = 20_000
# What the first pass hands on, at least, and for each one wanted.
_CANDIDATES, _CANDIDATES_FOR_ONE = 1_000, 4
# Up to that share allowed, only those are looked at, one by one; above it all are, and the others left out.
_PICKED_SHARE = 0.1
_MOST = 127.0
_FLOAT_ERROR = 1e-5


class FaissIndex:
    """Obeys `ingest.index.VectorIndex`, in memory.

    Args:
        state: What its vectors will be.
        rounded_from: From how many vectors on the first pass is made.
    """

    def __init__(self, state: IndexState, rounded_from: int = ROUNDED_FROM) -> None:
        import faiss

        self._state = state
        self._ids: Ids = np.empty(0, dtype=np.int64)
        self._full: Any = faiss.IndexFlatIP(state.dimension)
        self._rounded: _Rounded | None = None
        self._rounded_from = rounded_from
        self.num_gone_through_in_full = 0

    @property
    def state(self) -> IndexState:
        return self._state

    @property
    def ids(self) -> Ids:
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Ids, vectors: Vectors) -> None:
        if len(ids):
            rows = np.ascontiguousarray(vectors, dtype=np.float32)
            self._ids = np.concatenate([self._ids, ids])
            self._full.add(rows)
            if self._rounded is not None:
                self._rounded.add(rows)

    def remove(self, ids: Ids) -> int:
        gone = np.flatnonzero(membership(self._ids, ids))
        if len(gone):
            self._ids = np.delete(self._ids, gone)
            self._full.remove_ids(gone)
            if self._rounded is not None:
                self._rounded.remove(gone)
        return len(gone)

    def moved_to(self, generation: int) -> None:
        self._state = replace(self._state, generation=generation)

    def vectors(self, ids: Ids) -> tuple[Ids, Vectors]:
        there = np.flatnonzero(membership(self._ids, ids))
        return self._ids[there], self._rows()[there]

    def search(self, vector: Vectors, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        if not len(self) or k < 1:
            return []
        question = np.ascontiguousarray(vector, dtype=np.float32)
        places = None if allowed is None else np.flatnonzero(membership(self._ids, allowed))
        if places is not None and len(places) <= _PICKED_SHARE * len(self):
            return ranked(self._ids[places], self._rows()[places] @ question, k)
        k = min(k, len(self) if places is None else len(places))
        if len(self) >= self._rounded_from:
            candidates = self._first_pass(question, k, places)
            if candidates is not None:
                return ranked(self._ids[candidates], self._rows()[candidates] @ question, k)
        self.num_gone_through_in_full += 1
        found = self._full.search(question[None, :], k, params=_only(places, len(self)))[1][0]
        found = found[found >= 0]
        # Worked out again as everywhere else, so that one passage has one cosine whichever way it was found.
        return ranked(self._ids[found], self._rows()[found] @ question, k)

    def _first_pass(self, question: Vectors, k: int, places: Ids | None) -> Ids | None:
        """The places of all that can be among the `k` nearest; None where that can't be told."""
        if self._rounded is None:
            self._rounded = _Rounded(self._rows())
        wanted = min(max(_CANDIDATES, _CANDIDATES_FOR_ONE * k), len(self) if places is None else len(places))
        found, scores, error = self._rounded.search(question, wanted, _only(places, len(self)))
        if len(found) < k:
            return None
        if wanted < (len(self) if places is None else len(places)) and scores[-1] + error >= scores[k - 1] - error:
            return None
        kept: Ids = found[scores >= scores[k - 1] - 2 * error]
        return kept

    def _rows(self) -> Vectors:
        """All vectors, in the order of `ids`, as FAISS holds them: no copy, valid until the next change."""
        import faiss

        if not len(self):
            return np.empty((0, self._state.dimension), dtype=np.float32)
        held = faiss.rev_swig_ptr(self._full.get_xb(), len(self) * self._state.dimension)
        return np.asarray(held, dtype=np.float32).reshape(len(self), self._state.dimension)


class _Rounded:
    """The same vectors with each component in a byte."""

    def __init__(self, rows: Vectors) -> None:
        import faiss

        dimension = rows.shape[1]
        self._index: Any = faiss.IndexScalarQuantizer(
            dimension, faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
        )
        self._scale = _MOST / max(1e-9, float(np.abs(rows).max()))
        self._worst = 0.0
        self.add(rows)

    def add(self, rows: Vectors) -> None:
        for start in range(0, len(rows), ROUNDED_FROM):
            some = rows[start : start + ROUNDED_FROM]
            codes = np.clip(np.rint(some * self._scale), -_MOST, _MOST)
            self._worst = max(self._worst, float(np.linalg.norm(some - codes / self._scale, axis=1).max()))
            self._index.add(np.ascontiguousarray(codes, dtype=np.float32))

    def remove(self, places: Ids) -> None:
        self._index.remove_ids(places)

    def search(self, question: Vectors, k: int, only: Any) -> tuple[Ids, Vectors, float]:
        """Places, their cosines, best first, and the most by which one of these can be wrong."""
        scale = _MOST / max(1e-9, float(np.abs(question).max()))
        codes = np.rint(question * scale).astype(np.float32)
        scores, places = self._index.search(codes[None, :], k, params=only)
        lost = float(np.linalg.norm(question - codes / scale))
        error = self._worst * float(np.linalg.norm(question)) + lost * (1.0 + self._worst) + _FLOAT_ERROR
        there = places[0] >= 0
        return places[0][there], scores[0][there] / (scale * self._scale), error


def _only(places: Ids | None, count: int) -> Any:
    """FAISS's word for "these places of `count` alone"."""
    if places is None:
        return None
    import faiss

    table = np.zeros(count, dtype=np.bool_)
    table[places] = True
    # FAISS adds its Python signatures at run time.
    selector = faiss.IDSelectorBitmap(np.packbits(table, bitorder="little"))  # type: ignore[call-arg, arg-type]
    return faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
