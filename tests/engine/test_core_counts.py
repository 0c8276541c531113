"""What vLLM counts over all blocks of a prompt is known from the last one."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from engine.core_counts import tokens_of_last


@dataclass
class Block:
    block_hash_num_tokens: int | None


@pytest.mark.parametrize("seed", range(20))
def test_the_last_cached_block_tells_what_all_of_them_do(seed: int) -> None:
    """Blocks are cached from the first one on; any number of the last ones is not cached yet."""
    dice = random.Random(seed)
    num_cached, num_others = dice.randint(0, 9), dice.randint(0, 3)
    blocks = [Block(32 * (place + 1)) for place in range(num_cached)] + [Block(None)] * num_others
    assert tokens_of_last(blocks) == max((block.block_hash_num_tokens or 0 for block in blocks), default=0)
