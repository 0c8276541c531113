"""Decides how vectors are searched: FAISS, exact inner product, ids given by the store; the one home of faiss.

The file is a copy that can be made again: the vectors' truth is in the store. It carries its generation, its embedder
and a checksum, and is not believed where one of them does not fit.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.embed import Vectors

_MAGIC = b"readonce-index-1\n"
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class IndexState:
    """What the vectors in an index are: `base` names the store for ever, `generation` is its count of changes."""

    base: str
    generation: int
    embedder: str
    dimension: int


class VectorIndex:
    """Vectors by id. Not safe for several threads at once: its owner holds a lock.

    Args:
        state: Fixed dimension and embedder; `state.generation` moves on as the owner adds and removes.
    """

    def __init__(self, state: IndexState) -> None:
        import faiss

        self.state = state
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(state.dimension))

    @property
    def ids(self) -> Ids:
        """All ids, in no order."""
        import faiss

        return np.array(faiss.vector_to_array(self._index.id_map), dtype=np.int64)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def held(self, ids: Iterable[int]) -> list[int]:
        """Which of `ids` are there."""
        return [int(id_) for id_ in np.intersect1d(np.fromiter(ids, dtype=np.int64), self.ids)]

    def vector(self, id_: int) -> Vectors:
        """The vector of an id that is there, shape (dimension,)."""
        return np.asarray(self._index.reconstruct(id_), dtype=np.float32)

    def add(self, ids: Ids, vectors: Vectors) -> None:
        """Adds unit vectors of shape (len(ids), dimension); the ids must be new."""
        if len(ids):
            self._index.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), ids)

    def remove(self, ids: Ids) -> int:
        """Removes ids and says how many were there."""
        return int(self._index.remove_ids(ids)) if len(ids) else 0

    def search(self, vector: Vectors, k: int, allowed: Ids | None = None) -> list[tuple[int, float]]:
        """The `k` nearest (id, cosine), nearest first, among `allowed` (None: all)."""
        import faiss

        if not len(self) or (allowed is not None and not len(allowed)):
            return []
        parameters = None if allowed is None else faiss.SearchParameters(sel=faiss.IDSelectorBatch(allowed))  # type: ignore[call-arg]  # added at run time
        scores, ids = self._index.search(vector[None, :], min(k, len(self)), params=parameters)
        return [(int(id_), float(score)) for id_, score in zip(ids[0], scores[0], strict=True) if id_ >= 0]

    def save(self, path: Path) -> None:
        """Writes the file in one step: a crash leaves the old one."""
        import faiss

        body = faiss.serialize_index(self._index).tobytes()
        header = asdict(self.state) | {"sha256": hashlib.sha256(body).hexdigest()}
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".index-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_MAGIC + json.dumps(header).encode() + b"\n" + body)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def load_index(path: Path) -> VectorIndex | None:
    """Reads a saved index; None where it is missing or damaged."""
    import faiss

    try:
        data = path.read_bytes()
        if not data.startswith(_MAGIC):
            return None
        header_end = data.index(b"\n", len(_MAGIC))
        header = json.loads(data[len(_MAGIC) : header_end])
        body = data[header_end + 1 :]
        if hashlib.sha256(body).hexdigest() != header.pop("sha256"):
            return None
        index = VectorIndex(IndexState(**header))
        index._index = faiss.deserialize_index(np.frombuffer(body, dtype=np.uint8))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None
    return index


def vectors_from_blobs(blobs: Sequence[bytes], dimension: int) -> Vectors:
    """Stacks little-endian float32 rows as the store keeps them into shape (len(blobs), dimension)."""
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), dimension)
