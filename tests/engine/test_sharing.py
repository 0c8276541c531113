"""Groups of rows that share a prefix: attention computed by groups and merged is attention, whatever is shared."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from engine.sharing import Groups, group

BLOCK, HEADS, SIZE = 4, 2, 8


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Rows over shared documents of random length, as vLLM lays them out: table, lengths, query starts, tokens."""
    dice = random.Random(seed)
    fresh = iter(range(1, 10_000))
    documents = [[next(fresh) for _ in range(dice.choice([1, 2, 3, 7, 8, 12]))] for _ in range(dice.randint(1, 3))]
    if dice.random() < 0.5:  # documents that begin alike (the instructions)
        documents = [documents[0][:1] + document[1:] for document in documents]
    table, lens, starts = [], [], [0]
    for _ in range(dice.randint(1, 7)):
        num_queries = dice.choice([1, 1, 1, 2, 5, 9])
        cached = dice.choice([*documents, []])
        cached = cached[: dice.randint(len(cached) // 2, len(cached))]
        own = dice.randint(0, 6)
        length = len(cached) * BLOCK + own + num_queries
        blocks = cached + [next(fresh) for _ in range(-(-length // BLOCK) - len(cached))]
        table.append(blocks)
        lens.append(length)
        starts.append(starts[-1] + num_queries)
    for _ in range(dice.choice([0, 0, 2])):  # padding rows of a captured graph
        table.append([])
        lens.append(0)
        starts.append(starts[-1])
    width = max(map(len, table)) + dice.randint(0, 2)
    padded = torch.tensor([row + [0] * (width - len(row)) for row in table], dtype=torch.int32)
    num_tokens = starts[-1] + dice.choice([0, 0, 3])
    return padded, torch.tensor(lens, dtype=torch.int32), torch.tensor(starts, dtype=torch.int32), num_tokens


def attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain attention of (tokens, heads, size) over (length, heads, size): the result and its log-sum-exp."""
    scores = torch.einsum("qhd,khd->hqk", query, keys)
    if causal:
        mask = torch.ones(scores.shape[1:], dtype=torch.bool).tril(keys.shape[0] - query.shape[0])
        scores = scores.masked_fill(~mask, float("-inf"))
    lse = scores.logsumexp(-1)
    weights = (scores - lse.unsqueeze(-1)).exp().nan_to_num(0.0)
    return torch.einsum("hqk,khd->qhd", weights, values), lse


def by_groups(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    table: torch.Tensor,
    groups: Groups,
    starts: list[int],
) -> torch.Tensor:
    """What the kernels do: prefixes group by group in the groups' order, the rest row by row, merged."""
    sorted_query = query[groups.order]
    prefix, prefix_lse = torch.zeros_like(query), torch.full((HEADS, len(query)), float("-inf"), dtype=torch.float64)
    for number, (start, end) in enumerate(itertools.pairwise(groups.query_start.tolist())):
        blocks = table[number, : groups.prefix_lens[number] // BLOCK].long()
        if start < end and len(blocks):
            part = attend(sorted_query[start:end], keys[blocks].flatten(0, 1), values[blocks].flatten(0, 1), False)
            prefix[start:end], prefix_lse[:, start:end] = part
    prefix, prefix_lse = prefix[groups.inverse], prefix_lse[:, groups.inverse]
    merged = torch.zeros_like(query)
    for row, (start, end) in enumerate(itertools.pairwise(starts)):
        if start == end:
            continue
        length = int(groups.suffix_lens[row])
        blocks = groups.suffix_table[row, : -(-length // BLOCK)].long()
        rest, rest_lse = attend(
            query[start:end], keys[blocks].flatten(0, 1)[:length], values[blocks].flatten(0, 1)[:length], True
        )
        both = torch.logaddexp(prefix_lse[:, start:end], rest_lse)
        merged[start:end] = prefix[start:end] * (prefix_lse[:, start:end] - both).exp().T.unsqueeze(-1)
        merged[start:end] += rest * (rest_lse - both).exp().T.unsqueeze(-1)
    return merged


@pytest.mark.parametrize("seed", range(60))
def test_attention_by_groups_is_attention(seed: int) -> None:
    """Whatever rows share, however long their tails are, with padding rows and tokens: the same result."""
    table, lens, starts, num_tokens = batch(seed)
    torch.manual_seed(seed)
    query = torch.randn(num_tokens, HEADS, SIZE, dtype=torch.float64)
    keys, values = torch.randn(2, 10_000, BLOCK, HEADS, SIZE, dtype=torch.float64)
    groups = group(table, lens, starts, num_tokens, BLOCK)
    begins = starts.tolist()
    merged = by_groups(query, keys, values, table, groups, begins)
    for row, (start, end) in enumerate(itertools.pairwise(begins)):
        if start < end:
            length = int(lens[row])
            blocks = table[row, : -(-length // BLOCK)].long()
            whole = attend(
                query[start:end], keys[blocks].flatten(0, 1)[:length], values[blocks].flatten(0, 1)[:length], True
            )[0]
            torch.testing.assert_close(merged[start:end], whole)
    assert sorted(groups.order.tolist()) == list(range(num_tokens))
    assert groups.order[groups.inverse].tolist() == list(range(num_tokens))


def test_questions_on_one_document_form_one_group_whatever_stands_between() -> None:
    """Rows 0, 2 and 3 read document a, row 1 reads p: a is attended to once for three rows."""
    table = torch.tensor(
        [[1, 2, 3, 4, 5, 20, 0], [11, 12, 13, 21, 0, 0, 0], [1, 2, 3, 4, 5, 22, 23], [1, 2, 3, 4, 5, 24, 0]]
    )
    groups = group(
        table.to(torch.int32),
        torch.tensor([21, 13, 26, 22], dtype=torch.int32),
        torch.tensor([0, 1, 2, 3, 4], dtype=torch.int32),
        4,
        BLOCK,
    )
    assert groups.prefix_lens.tolist() == [20, 12, 0, 0]
    assert groups.query_start.tolist() == [0, 3, 4, 4, 4]
    assert groups.order.tolist() == [0, 2, 3, 1]
    assert groups.suffix_lens.tolist() == [1, 1, 6, 2]
    assert groups.suffix_table[:, 0].tolist() == [20, 21, 22, 24]


def test_shared_instructions_do_not_make_one_group_of_two_documents() -> None:
    """Documents that begin alike are two groups: each is attended to whole."""
    table = torch.tensor([[1, 2, 3, 4, 20], [1, 6, 7, 8, 21]], dtype=torch.int32)
    groups = group(
        table, torch.tensor([17, 17], dtype=torch.int32), torch.tensor([0, 1, 2], dtype=torch.int32), 2, BLOCK
    )
    assert groups.prefix_lens.tolist() == [16, 16]
