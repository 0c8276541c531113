"""Decides what the engine core keeps of prefixes: their ids, as a list and as an array, and their blocks' hashes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.core_found import Known

_MOST_KEPT_TOKENS = 8_000_000  # 8 bytes each in the list, 4 in the array


@dataclass
class Kept:
    """A prefix in the core; hashes of its whole blocks by salt."""

    ids: list[int]
    array: npt.NDArray[np.int32]
    hashes: dict[str | None, Known] = field(default_factory=dict)


class Memo:
    """Prefixes by their id, read from the registry's folder when they are first asked for; the least used go first.

    Args:
        folder: Holds `<id>.i32`, little-endian int32.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._num_tokens = 0
        self._lock = threading.Lock()  # the core's input thread and its main thread

    def get(self, prefix_id: str) -> Kept:
        """The prefix's ids.

        Raises:
            KeyError: It is not in the folder.
        """
        with self._lock:
            kept = self._kept.get(prefix_id)
            if kept is None:
                kept = self._kept[prefix_id] = self._load(prefix_id)
                self._num_tokens += len(kept.ids)
                while self._num_tokens > _MOST_KEPT_TOKENS and len(self._kept) > 1:
                    self._num_tokens -= len(self._kept.popitem(last=False)[1].ids)
            else:
                self._kept.move_to_end(prefix_id)
            return kept

    def find(self, prefix_id: str) -> Kept | None:
        """The prefix where it is kept now; never looks into the folder."""
        with self._lock:
            return self._kept.get(prefix_id)

    def drop(self, prefix_id: str, salt: str | None) -> list[bytes]:
        """Forgets a prefix; returns the hashes that no other kept prefix of that salt has (the instructions' stay)."""
        with self._lock:
            kept = self._kept.pop(prefix_id, None)
            if kept is None:
                return []
            self._num_tokens -= len(kept.ids)
            known = kept.hashes.get(salt)
            of_others = [other.hashes[salt].hashes for other in self._kept.values() if salt in other.hashes]
            others = {block_hash for hashes in of_others for block_hash in hashes}
            return [block_hash for block_hash in (known.hashes if known else ()) if block_hash not in others]

    def _load(self, prefix_id: str) -> Kept:
        if not prefix_id.isalnum():
            raise KeyError(prefix_id)
        try:
            array = np.fromfile(self._folder / f"{prefix_id}.i32", dtype="<i4").astype(np.int32, copy=False)
        except OSError as error:
            raise KeyError(prefix_id) from error
        return Kept(array.tolist(), array)
