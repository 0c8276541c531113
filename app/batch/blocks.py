"""Decides what an engine computes of a prompt by its block rules: what no prompt before it began with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np


class Blocks:
    """The whole blocks of all prompts so far, in a pool that forgets nothing.

    A prompt finds its longest run of blocks that are known, and never its last token.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._known: set[bytes] = set()

    def computed(self, root: str, token_ids: Sequence[int]) -> int:
        """How many of a prompt's tokens are computed; its blocks are known from then on.

        Args:
            root: What stands before `token_ids`, or whose cache it is: prompts of two roots share nothing.
        """
        found = 0
        hashes = list(self._hashes(root, token_ids))
        for one in hashes[: (len(token_ids) - 1) // self._block_size]:
            if one not in self._known:
                break
            found += self._block_size
        self._known.update(hashes)
        return len(token_ids) - found

    def _hashes(self, root: str, token_ids: Sequence[int]) -> Iterator[bytes]:
        """One for each whole block, over all that stands before it."""
        packed = np.asarray(token_ids, dtype="<i4").tobytes()
        width = 4 * self._block_size
        parent = root.encode()
        for start in range(0, len(packed) - width + 1, width):
            parent = hashlib.sha256(parent + packed[start : start + width]).digest()
            yield parent


def reading(token_ids: Sequence[int], block_size: int) -> tuple[int, ...]:
    """What is sent to have a prefix read: its whole blocks, and one token behind them.

    What is left of its last block is computed with each question. An engine that reads in several steps sends one token
    more with each of them; how many steps it takes depends on how busy it is, and nobody can tell beforehand.
    """
    return (*token_ids[: len(token_ids) // block_size * block_size], token_ids[0])
