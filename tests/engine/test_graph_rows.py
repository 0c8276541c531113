"""Graphs for fewer rows: each step takes the smallest graph that holds its tokens and its questions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

import pytest

from engine.graph_rows import add_fewer_rows


class Mode(Enum):
    FULL = 2
    PIECEWISE = 1


@dataclass(frozen=True)
class Descriptor:
    """The fields of vLLM's that matter here."""

    cg_mode: Mode
    num_tokens: int
    num_reqs: int | None
    uniform_token_count: int | None = None


def graphs(sizes: list[int], most_rows: int) -> tuple[dict[Mode, list[Descriptor]], dict[int, list[Descriptor]]]:
    """As vLLM lays them out: a graph a size, tried for each number of tokens up to it from the next smaller one on."""
    by_size = {size: [Descriptor(Mode.FULL, size, min(size, most_rows))] for size in sizes}
    candidates = {tokens: by_size[min(size for size in sizes if size >= tokens)] for tokens in range(1, max(sizes) + 1)}
    return {Mode.FULL: [by_size[size][0] for size in sorted(sizes, reverse=True)]}, candidates


def chosen(candidates: dict[int, list[Descriptor]], num_tokens: int, num_rows: int) -> Descriptor:
    """vLLM's rule: the first one that holds the rows."""
    return next(one for one in candidates[num_tokens] if one.num_reqs is None or one.num_reqs >= num_rows)


@pytest.mark.parametrize("seed", range(20))
def test_a_step_takes_the_graph_with_the_fewest_rows_that_hold_it(seed: int) -> None:
    """Whatever sizes there are, what is chosen was captured, holds the rows, and no smaller one would."""
    dice = random.Random(seed)
    sizes = sorted(dice.sample(range(1, 513), 12))
    to_capture, candidates = graphs(sizes, 256)
    add_fewer_rows(to_capture, candidates, (1, 48))
    for _ in range(50):
        num_tokens = dice.randint(1, sizes[-1])
        num_rows = dice.randint(1, min(num_tokens, 256))
        graph = chosen(candidates, num_tokens, num_rows)
        size = min(one for one in sizes if one >= num_tokens)
        assert graph in to_capture[Mode.FULL]
        assert graph.num_tokens == size
        assert graph.num_reqs == min(rows for rows in {1, 48, min(size, 256)} if rows >= num_rows)


def test_no_graph_is_captured_twice_and_the_largest_come_first() -> None:
    """A graph of 40 tokens has no variant for 48 rows, one of a single token has none at all."""
    to_capture, candidates = graphs([1, 40, 512], 256)
    add_fewer_rows(to_capture, candidates, (1, 48))
    rows = [(one.num_tokens, one.num_reqs) for one in to_capture[Mode.FULL]]
    assert rows == [(512, 256), (512, 1), (512, 48), (40, 40), (40, 1), (1, 1)]


def test_other_graphs_are_left_alone() -> None:
    """Graphs in pieces take any number of rows, those of a decode step have as many as tokens."""
    others = [Descriptor(Mode.PIECEWISE, 64, None), Descriptor(Mode.FULL, 64, 64, uniform_token_count=1)]
    to_capture, candidates = {Mode.FULL: list(others)}, {64: list(others)}
    add_fewer_rows(to_capture, candidates)
    assert to_capture == {Mode.FULL: others}
    assert candidates == {64: others}
