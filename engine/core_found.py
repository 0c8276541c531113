"""Decides when the blocks of a prefix need no look-up: they were found before, and none of them was evicted since.

vLLM looks each block of a prompt up by its hash, 1,875 times for 120,000 tokens in blocks of 64. Here the blocks that a
prefix was found in are remembered beside its hashes; evicting one of them, or a reset, ends that. Runs in the engine
core, on the scheduler's one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any


@dataclass(eq=False)
class Found:
    """Where a prefix's blocks were; `rest` is what vLLM's look-up gives beside blocks and tokens."""

    blocks: list[Any]
    rest: tuple[Any, ...]
    is_valid: bool = True


@dataclass
class Known:
    """What is known of a prefix under one salt: the hashes of its whole blocks, and where they were found."""

    hashes: list[bytes] = field(default_factory=list)
    found: Found | None = None


class Hashes(list[bytes]):
    """A request's block hashes, of which the first `num_prefix` are a prefix's (or its first ones)."""

    def __init__(self, known: Known, num_prefix: int, hashes: Iterable[bytes]) -> None:
        super().__init__(hashes)
        self.known = known
        self.num_prefix = num_prefix


_found_in: dict[int, list[Found]] = {}  # block number -> prefixes that were found in it


def find_behind(
    hashes: Hashes,
    most: int,
    block_size: int,
    get: Callable[[bytes], Any],
    find: Callable[[], tuple[Any, ...]],
) -> tuple[Any, ...]:
    """The longest run of cached blocks from the start, as vLLM's `find_longest_cache_hit` gives it.

    Args:
        most: Blocks at most (a look-up never takes the whole prompt).
        get: vLLM's look-up of one hash: a list of one block, or None.
        find: vLLM's whole look-up; called where nothing is remembered.
    """
    known, num_prefix = hashes.known, hashes.num_prefix
    if known.found is not None and known.found.is_valid and len(known.found.blocks) == num_prefix <= most:
        blocks = known.found.blocks.copy()
        for block_hash in islice(hashes, num_prefix, most):
            cached = get(block_hash)
            if not cached:
                break
            blocks.append(cached[0])
        return ((blocks,), len(blocks) * block_size, *known.found.rest)
    result = find()
    blocks = result[0][0]
    if num_prefix == len(known.hashes) and len(blocks) >= num_prefix > 0:
        known.found = _remember(list(blocks[:num_prefix]), tuple(result[2:]))
    return result


def forget_found(block_id: int) -> None:
    """A block is evicted: what was found in it has to be looked up again."""
    for found in _found_in.pop(block_id, ()):
        found.is_valid = False


def forget_all_found() -> None:
    for block_id in list(_found_in):
        forget_found(block_id)


def _remember(blocks: list[Any], rest: tuple[Any, ...]) -> Found:
    found = Found(blocks, rest)
    for block in blocks:
        others = _found_in.get(block.block_id)
        _found_in[block.block_id] = [found] if others is None else [one for one in others if one.is_valid] + [found]
    return found
