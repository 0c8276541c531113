"""Decides what the cache's pool can bear: which prefix fits at all, and how much of it pinned prefixes may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base import EngineError
from engine.shelf import Facts


@dataclass(frozen=True)
class Pool:
    """The engine's cache.

    Attributes:
        num_tokens: What all blocks hold together.
        max_model_len: Tokens of prompt and answer of one request.
        pin_share: The share of the pool that pins may take, 0 to 1.
        vocabulary: Number of token ids; None where not known.
    """

    num_tokens: int
    block_size: int
    max_model_len: int
    pin_share: float
    vocabulary: int | None = None

    @property
    def most_pinned(self) -> int:
        """Tokens: beside the pins the largest prompt still finds room, whatever the share says."""
        return max(0, min(int(self.num_tokens * self.pin_share), self.num_tokens - self.max_model_len))

    def in_blocks(self, num_tokens: int) -> int:
        """The tokens of the blocks that so many tokens take."""
        return -(-num_tokens // self.block_size) * self.block_size


def refuse_unfitting(num_tokens: int, pool: Pool) -> None:
    """A prefix is of use only if at least one token of a question follows it.

    Raises:
        EngineError: `does_not_fit`.
    """
    if num_tokens + 1 > pool.max_model_len:
        raise EngineError(
            "does_not_fit",
            f"The prefix has {num_tokens:,} tokens and the engine reads at most {pool.max_model_len - 1:,} before an "
            "answer; make it shorter, or start the engine with a larger max_model_len.",
        )
    if pool.in_blocks(num_tokens + 1) > pool.num_tokens:
        raise EngineError(
            "does_not_fit",
            f"The prefix has {num_tokens:,} tokens and the engine's cache holds {pool.num_tokens:,}; "
            "make it shorter, or give the engine more memory for its cache.",
        )


def refuse_pin(num_tokens: int, pinned: Sequence[int], pool: Pool) -> None:
    """Args: `pinned`, the tokens of each prefix that is pinned already.

    Raises:
        EngineError: `pins_full`.
    """
    taken = sum(map(pool.in_blocks, pinned))
    if taken + pool.in_blocks(num_tokens) > pool.most_pinned:
        raise EngineError(
            "pins_full",
            f"Pinned prefixes hold {taken:,} tokens of the {pool.most_pinned:,} that may be pinned (the pool holds "
            f"{pool.num_tokens:,}, the largest prompt {pool.max_model_len:,}), so {num_tokens:,} more can't be pinned; "
            "unpin or free some first.",
        )


def surplus_pins(pinned: Sequence[Facts], pool: Pool) -> list[Facts]:
    """Those that have to be loosened so that the rest is within the bounds, in the given order."""
    taken = sum(pool.in_blocks(facts.num_tokens) for facts in pinned)
    surplus = []
    for facts in pinned:
        if taken <= pool.most_pinned:
            break
        surplus.append(facts)
        taken -= pool.in_blocks(facts.num_tokens)
    return surplus
