"""Decides which questions of a batch attend to a shared prefix together: from the block table, on the device.

Two rows that hold the same block at the same place hold the same text up to there (a cached block is found by the hash
of all that comes before it). So a group is found by one look at each row, without the host and without waiting for it:

    row   blocks              group   shared     own
    0     a b c d e | 7       0       a b c d e  7          the key of a row is the block at its power of two:
    1     p q r | 8           1       p q r      8          rows with one key have at least half of their text in common
    2     a b c d e | 9 10    0       a b c d e  9 10

Attention over a prefix is then computed once for all queries of its group, attention over the rest row by row, and the
two are merged by their log-sum-exp: the exact result, with a shared document's keys and values read once a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Groups:
    """How R rows with T query tokens are grouped; W blocks are in a row of the table. A group bears its first row's
    number; numbers that lead no group have no queries.

    Attributes:
        order: (T,) int64: the query tokens, those of one group next to each other.
        inverse: (T,) int64: where each token went.
        query_start: (R + 1,) int32: where each group's queries begin in that order.
        prefix_lens: (R,) int32: tokens that a group shares; 0 where a number leads no group.
        suffix_lens: (R,) int32: tokens of each row after its group's prefix.
        suffix_table: (R, W) int32: each row's blocks after its group's prefix.
    """

    order: torch.Tensor
    inverse: torch.Tensor
    query_start: torch.Tensor
    prefix_lens: torch.Tensor
    suffix_lens: torch.Tensor
    suffix_table: torch.Tensor


def group(
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start: torch.Tensor,
    num_tokens: int,
    block_size: int,
) -> Groups:
    """Groups the rows of a batch; all work is done on the tensors' device, no shape depends on their values.

    Args:
        block_table: (R, W) int32, the blocks of each row in order.
        seq_lens: (R,) int32, tokens of each row, this step's queries included; 0 for a padding row.
        query_start: (R + 1,) int32, where each row's queries begin.
        num_tokens: T, padding tokens behind the last row's included.
        block_size: Tokens in a block.
    """
    import torch

    device, num_rows, width = block_table.device, block_table.shape[0], block_table.shape[1]
    rows = torch.arange(num_rows, device=device)
    places = torch.arange(width, device=device)
    # Whole blocks before this step's queries: every query of a row may attend to all of them.
    num_whole = ((seq_lens - (query_start[1:] - query_start[:-1])) // block_size).clamp_(min=0).long()
    power = num_whole.clone()
    for shift in (1, 2, 4, 8, 16):
        power |= power >> shift
    power = (power + 1) >> 1  # the highest power of two in it; 0 stays 0
    key = block_table.gather(1, (power - 1).clamp_(min=0).unsqueeze(1)).squeeze(1).long()
    key = torch.where(num_whole > 0, key, -1 - rows)
    leader = (key.unsqueeze(1) == key.unsqueeze(0)).to(torch.uint8).argmax(dim=1)  # the first row with that key

    common = torch.minimum(num_whole, num_whole[leader]).unsqueeze(1)
    same = (block_table == block_table[leader]) & (places < common)
    num_common = (same * (places + 1)).amax(dim=1)  # up to the last equal block
    shared = torch.full_like(num_whole, width).scatter_reduce_(0, leader, num_common, "amin")
    num_shared = shared[leader]

    token_rows = torch.searchsorted(
        query_start[1:].contiguous(), torch.arange(num_tokens, device=device, dtype=query_start.dtype), right=True
    )
    token_group = torch.cat([leader, leader.new_full((1,), num_rows)])[token_rows]  # padding tokens come last
    order = torch.argsort(token_group, stable=True)
    inverse = torch.empty_like(order).scatter_(0, order, torch.arange(num_tokens, device=device))
    counts = torch.zeros(num_rows + 1, dtype=torch.int32, device=device)
    counts.scatter_add_(0, token_group, torch.ones_like(token_group, dtype=torch.int32))
    starts = torch.zeros(num_rows + 1, dtype=torch.int32, device=device)
    torch.cumsum(counts[:-1], 0, dtype=torch.int32, out=starts[1:])

    return Groups(
        order=order,
        inverse=inverse,
        query_start=starts,
        prefix_lens=torch.where(leader == rows, num_shared * block_size, 0).to(torch.int32),
        suffix_lens=(seq_lens - num_shared * block_size).clamp_(min=0).to(torch.int32),
        suffix_table=block_table.gather(1, (places.unsqueeze(0) + num_shared.unsqueeze(1)).clamp_(max=width - 1)),
    )
