"""Decides which tokens of a prompt are cached: vLLM 0.29's block rules, without a model.

The rules (vllm/v1/core: block_pool, kv_cache_manager, single_type_kv_cache_manager, sched/scheduler):

- A sequence is cut into blocks of `block_size` tokens. A whole block's hash covers its parent's hash, its tokens and,
  in block 0, the salt: equal hash means equal text from the very first token on.
- A lookup takes the longest run of known blocks from the start, but never the last token of the prompt.
- Blocks are known from the moment they are scheduled, answers' whole blocks too; the last drawn token is not computed.
- A freed block goes to the tail of the free queue if it has a hash (the end of the chain first, so that it is taken
  first), to the head if it has none. New blocks are taken from the head, and forget their hash.
- A block that was computed again although its hash is known is kept beside the first: there is no de-duplication.

`tests/engine/test_fake_against_vllm.py` holds both against each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import numpy as np


@dataclass(eq=False)
class _Block:
    number: int
    ref_count: int = 0
    hash: bytes | None = None


class _FreeQueue:
    """Free blocks in the order in which they are taken; removal from the middle in constant time."""

    def __init__(self, blocks: Iterable[_Block]) -> None:
        # Two insertion-ordered dictionaries: what is put at the head is a stack before the queue.
        self._head: dict[int, _Block] = {}
        self._tail: dict[int, _Block] = {block.number: block for block in blocks}

    def __len__(self) -> int:
        return len(self._head) + len(self._tail)

    def take(self) -> _Block:
        if self._head:
            return self._head.popitem()[1]
        number = next(iter(self._tail))
        return self._tail.pop(number)

    def remove(self, block: _Block) -> None:
        if self._tail.pop(block.number, None) is None:
            del self._head[block.number]

    def put_last(self, blocks: Iterable[_Block]) -> None:
        self._tail.update((block.number, block) for block in blocks)

    def put_first(self, blocks: Sequence[_Block]) -> None:
        self._head.update((block.number, block) for block in reversed(blocks))


@dataclass(eq=False)
class Run:
    """A request: its tokens and the blocks it holds.

    Attributes:
        token_ids: Prompt and answer so far.
        num_cached: Prompt tokens found by the lookup.
        num_computed: Tokens whose keys and values are in blocks.
        reads_cache: False where all is computed anew, as vLLM does for a prompt whose likelihood is asked for; what it
            computes becomes known all the same.
    """

    token_ids: list[int]
    salt: str | None
    reads_cache: bool = True
    num_cached: int = 0
    num_computed: int = 0
    blocks: list[_Block] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    num_hashed_blocks: int = 0


class Listener(Protocol):
    """Hears what vLLM tells with its KV events, in the same order; a hit is not told."""

    def stored(self, block_hash: bytes) -> None: ...

    def removed(self, block_hash: bytes) -> None: ...

    def cleared(self) -> None: ...


class NoRoomError(Exception):
    """Not enough free blocks; nothing was changed."""


class BlockCache:
    """The pool.

    Args:
        num_blocks: As vLLM counts them: one of them is the null block and holds nothing.
        block_size: Tokens in a block.
        listener: Hears of each block that becomes known and of each that is forgotten.
    """

    def __init__(self, num_blocks: int, block_size: int, listener: Listener | None = None) -> None:
        if num_blocks < 2 or block_size < 1:
            raise ValueError(f"a pool of {num_blocks} blocks of {block_size} tokens holds nothing")
        self.block_size = block_size
        self.num_blocks = num_blocks
        self._blocks = [_Block(number) for number in range(1, num_blocks)]
        self._free = _FreeQueue(self._blocks)
        self._known: dict[bytes, dict[int, _Block]] = {}
        self._listener = listener

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_known(self) -> int:
        """Blocks that a lookup can find, duplicates counted."""
        return sum(len(blocks) for blocks in self._known.values())

    def begin(self, token_ids: Sequence[int], salt: str | None = None, *, reads_cache: bool = True) -> Run:
        """Looks a prompt up (see `Run.reads_cache`) and holds what it found; nothing is computed yet.

        Raises:
            NoRoomError: The whole prompt does not fit now (vLLM admits a request only if it does).
        """
        run = Run(list(token_ids), salt, reads_cache)
        self.resume(run)
        run.num_cached = run.num_computed
        return run

    def resume(self, run: Run) -> None:
        """Looks up a run that holds no blocks (new, or pre-empted) with all tokens that it has by now.

        Raises:
            NoRoomError: As `begin`.
        """
        self._hash(run)
        found = self._lookup(run) if run.reads_cache else []
        taken_from_free = sum(block.ref_count == 0 for block in found)
        if self._num_blocks_for(len(run.token_ids)) - len(found) + taken_from_free > self.num_free:
            raise NoRoomError
        for block in found:
            if block.ref_count == 0:
                self._free.remove(block)
            block.ref_count += 1
        run.blocks = found
        run.num_computed = len(found) * self.block_size
        run.num_hashed_blocks = len(found)

    def compute(self, run: Run, num_tokens: int | None = None) -> None:
        """Schedules the next `num_tokens` (all that are left where None): takes blocks, makes the whole ones known.

        Raises:
            NoRoomError: The pool is used up; the caller has to free a run first.
        """
        left = len(run.token_ids) - run.num_computed
        end = run.num_computed + (left if num_tokens is None else min(num_tokens, left))
        missing = self._num_blocks_for(end) - len(run.blocks)
        if missing > self.num_free:
            raise NoRoomError
        for _ in range(missing):
            run.blocks.append(self._take())
        self._hash(run)
        whole = end // self.block_size
        for index in range(run.num_hashed_blocks, whole):
            block = run.blocks[index]
            block.hash = run.hashes[index]
            self._known.setdefault(block.hash, {})[block.number] = block
            if self._listener:
                self._listener.stored(block.hash)
        run.num_hashed_blocks = max(run.num_hashed_blocks, whole)
        run.num_computed = end

    def free(self, run: Run) -> None:
        """Lets go of a run's blocks (its end, an abort, a pre-emption); the known ones stay known."""
        last: list[_Block] = []
        first: list[_Block] = []
        for block in reversed(run.blocks):
            block.ref_count -= 1
            if block.ref_count == 0:
                (first if block.hash is None else last).append(block)
        self._free.put_first(first)
        self._free.put_last(last)
        run.blocks = []
        run.num_computed = run.num_hashed_blocks = 0

    def reset(self) -> bool:
        """Forgets everything; False, and nothing is forgotten, while a run holds blocks."""
        if self.num_free != self.num_blocks - 1:
            return False
        self._known.clear()
        for block in self._blocks:
            block.hash = None
        if self._listener:
            self._listener.cleared()
        return True

    def ask(self, prompt_ids: Sequence[int], output_ids: Sequence[int], salt: str | None = None) -> int:
        """A whole request that runs alone: prompt, answer, end. Returns the number of cached prompt tokens."""
        run = self.begin(prompt_ids, salt)
        try:
            self.compute(run)
            for token in output_ids[:-1]:
                run.token_ids.append(token)
                self.compute(run)
        finally:
            self.free(run)
        return run.num_cached

    def count_cached(self, token_ids: Sequence[int], salt: str | None = None) -> int:
        """What a lookup would find now; changes nothing."""
        run = Run(list(token_ids), salt)
        self._hash(run)
        return len(self._lookup(run)) * self.block_size

    def _num_blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _lookup(self, run: Run) -> list[_Block]:
        found: list[_Block] = []
        for block_hash in islice(run.hashes, (len(run.token_ids) - 1) // self.block_size):
            known = self._known.get(block_hash)
            if not known:
                break
            found.append(next(iter(known.values())))
        return found

    def _take(self) -> _Block:
        block = self._free.take()
        if block.hash is not None:
            known = self._known[block.hash]
            del known[block.number]
            if not known:
                del self._known[block.hash]
            if self._listener:
                self._listener.removed(block.hash)
            block.hash = None
        block.ref_count = 1
        return block

    def _hash(self, run: Run) -> None:
        """Hashes the blocks that have become whole since the last call."""
        size = self.block_size
        for start in range(len(run.hashes) * size, len(run.token_ids) - size + 1, size):
            parent = run.hashes[-1] if run.hashes else (run.salt or "").encode() + b"\0"
            tokens = np.asarray(run.token_ids[start : start + size], dtype="<i4").tobytes()
            run.hashes.append(hashlib.sha256(parent + tokens).digest())
