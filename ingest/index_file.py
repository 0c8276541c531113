"""Decides how an index is kept in a file: ids and vectors, with the state that they belong to and a checksum.

The file saves reading every vector from the store. It is written whole, so not for each small change: what it lacks is
taken from the store when it is loaded, and where something was removed the file goes, so that no trace of it stays.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ingest.index import Ids, IndexState, VectorIndex
from ingest.index_faiss import FaissIndex

_MAGIC = b"readonce-index-2\n"
# Written again when so much of it is new: then a vector is written some eight times in its life, whatever the number.
_NEW_SHARE = 0.125


class FileHome:
    """Obeys `ingest.index.IndexHome`.

    Args:
        make: Makes an empty index.
    """

    def __init__(self, path: Path, make: Callable[[IndexState], VectorIndex] = FaissIndex) -> None:
        self._path = path
        self._make = make
        self._num_new = 0

    def load(self, base: str) -> VectorIndex | None:
        self._num_new = 0
        return load_index(self._path, self._make)

    def new(self, state: IndexState) -> VectorIndex:
        self._num_new = 0
        return self._make(state)

    def keep(self, index: VectorIndex, num_added: int, num_removed: int) -> None:
        self._num_new += num_added
        try:
            if num_removed:
                self._path.unlink(missing_ok=True)
            if self._num_new > _NEW_SHARE * len(index):
                save_index(self._path, index)
                self._num_new = 0
        except OSError:
            # The copy only saves time: a full disk or a home that can't be written is no reason not to answer.
            self._path.unlink(missing_ok=True)


def save_index(path: Path, index: VectorIndex) -> None:
    """Writes the file in one step: a crash leaves the old one."""
    ids, vectors = index.vectors(index.ids)
    parts = ids.astype("<i8", copy=False), np.ascontiguousarray(vectors, dtype="<f4")
    header = asdict(index.state) | {"count": len(ids), "sha256": _digest(*parts)}
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".index-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + json.dumps(header).encode() + b"\n")
            for part in parts:
                file.write(part.data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load_index(path: Path, make: Callable[[IndexState], VectorIndex] = FaissIndex) -> VectorIndex | None:
    """Reads a saved index; None where it is missing or damaged."""
    try:
        with path.open("rb") as file:
            if file.readline(len(_MAGIC)) != _MAGIC:
                return None
            header = json.loads(file.readline())
            count, sha256 = int(header.pop("count")), header.pop("sha256")
            state = IndexState(**header)
            ids = np.fromfile(file, dtype="<i8", count=count)
            vectors = np.fromfile(file, dtype="<f4")
        if len(ids) != count or vectors.size != count * state.dimension or _digest(ids, vectors) != sha256:
            return None
    except (OSError, ValueError, KeyError, TypeError, MemoryError):
        return None
    index = make(state)
    index.add(ids, vectors.reshape(count, state.dimension))
    return index


def _digest(ids: Ids, vectors: np.ndarray[Any, Any]) -> str:
    digest = hashlib.sha256(ids.tobytes())
    digest.update(vectors.data)
    return digest.hexdigest()
