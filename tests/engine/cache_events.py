"""A `BlockCache` that tells what vLLM tells: one numbered batch a step, a reset only with the step after it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from engine.blocks import BlockCache
from engine.hashing import BlockHasher, block_id
from engine.holdings import Batch, Change, Cleared, Removed, Stored

ROOT = b"root"


def hash_value(value: Any) -> bytes:
    """`BlockCache`'s hash in the form of vLLM's."""
    parent, token_ids, extra_keys = value
    if parent == ROOT:
        parent = (extra_keys[0] if extra_keys else "").encode() + b"\0"
    else:
        assert extra_keys is None, "a salt goes into block 0 only"
    return hashlib.sha256(parent + np.asarray(token_ids, dtype="<i4").tobytes()).digest()


def hasher_for(block_size: int) -> BlockHasher:
    return BlockHasher(block_size, hash_value, ROOT, lambda salt: (salt,))


class Teller:
    """Listens to a cache."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.cache = BlockCache(num_blocks, block_size, self)
        self.batches: list[Batch] = []
        self._untold: list[Change] = []

    def stored(self, block_hash: bytes) -> None:
        self._untold.append(Stored((block_id(block_hash),)))

    def removed(self, block_hash: bytes) -> None:
        self._untold.append(Removed((block_id(block_hash),)))

    def cleared(self) -> None:
        self._untold.append(Cleared())

    def step(self) -> list[Batch]:
        """The end of a step: the batch that it publishes, if anything changed."""
        if not self._untold:
            return []
        number = len(self.batches)
        self.batches.append(Batch(number, 1000.0 + number, tuple(self._untold)))
        self._untold = []
        return self.batches[-1:]
