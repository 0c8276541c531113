"""Blocks that were found once: remembered, they are what a look-up finds, whatever is evicted and stored meanwhile."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice

import pytest

from engine.core_found import Hashes, Known, find_behind, forget_all_found, forget_found


@dataclass
class Block:
    block_id: int


class Pool:
    """Blocks by hash; counts the look-ups of single hashes and whole ones."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, Block] = {}
        self.num_single = self.num_whole = 0

    def store(self, hashes: list[bytes], first_id: int) -> None:
        for number, block_hash in enumerate(hashes):
            self.blocks.setdefault(block_hash, Block(first_id + number))

    def evict(self, block_hash: bytes) -> None:
        if (block := self.blocks.pop(block_hash, None)) is not None:
            forget_found(block.block_id)

    def get(self, block_hash: bytes) -> list[Block] | None:
        self.num_single += 1
        block = self.blocks.get(block_hash)
        return None if block is None else [block]

    def run(self, hashes: list[bytes], most: int) -> list[int]:
        found = []
        for block_hash in islice(hashes, most):
            if block_hash not in self.blocks:
                break
            found.append(self.blocks[block_hash].block_id)
        return found

    def find(self, hashes: Hashes, most: int) -> tuple[list[int], int, int]:
        def whole() -> tuple[tuple[list[Block]], int, int]:
            self.num_whole += 1
            ids = set(self.run(hashes, most))
            blocks = [self.blocks[one] for one in islice(hashes, len(ids))]
            return (blocks,), len(blocks) * 16, 0

        (blocks,), num_tokens, rest = find_behind(hashes, most, 16, self.get, whole)
        assert num_tokens == len(blocks) * 16
        return [block.block_id for block in blocks], num_tokens, rest


def names(words: str, number: int) -> list[bytes]:
    return [f"{words} {place}".encode() for place in range(number)]


def test_a_prefix_is_looked_up_once_and_a_question_only_by_its_tail() -> None:
    """The second question costs one look-up, of the block behind the prefix."""
    pool, known = Pool(), Known(names("a", 100))
    pool.store(known.hashes, 1)
    question = Hashes(known, 100, [*known.hashes, b"its own"])
    assert pool.find(question, 101)[0] == list(range(1, 101))
    pool.num_single = 0
    assert pool.find(question, 101)[0] == list(range(1, 101))
    assert (pool.num_whole, pool.num_single) == (1, 1)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_remembered_is_what_a_look_up_finds(seed: int) -> None:
    """Two prefixes that begin alike, grow, are evicted from any end, stored again, reset: never a stale block."""
    dice, pool = random.Random(seed), Pool()
    shared = names("shared", dice.randint(0, 3))
    prefixes = [[*shared, *names(name, dice.randint(1, 6))] for name in "ab"]
    knowns, fresh = [Known(), Known()], 1
    for _ in range(200):
        which = dice.randrange(2)
        hashes, known = prefixes[which], knowns[which]
        event = dice.random()
        if event < 0.5:
            num = dice.randint(1, len(hashes))
            question = Hashes(known, num, [*hashes[:num], *names(f"tail {dice.randint(1, 2)}", 2)])
            if len(known.hashes) < num:
                known.hashes = hashes[:num]
            most = dice.randint(0, len(question))
            assert pool.find(question, most)[0] == pool.run(question, most)
        elif event < 0.7:
            pool.store([*hashes[: dice.randint(0, len(hashes))], *names(f"tail {dice.randint(1, 2)}", 1)], fresh)
            fresh += 20
        elif event < 0.97:
            pool.evict(dice.choice([*hashes, b"tail 1 0"]))
        else:
            pool.blocks.clear()
            forget_all_found()
