"""Steps of a reading: about as long each, whatever the machine, and carefully larger at the beginning."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.pace import MIN_BLOCKS, Pace

BLOCK = 32


def read(pace: Pace, num_tokens: int, token_s: float, slope_s: float, noise: float = 0.0) -> list[tuple[int, float]]:
    """Reads a document on a machine with these costs; (tokens, seconds) of each step."""
    dice = random.Random(5)
    steps = []
    position = 0
    while position < num_tokens:
        n = pace.step_tokens(position)
        seconds = n * (token_s + slope_s * (position + n / 2)) * dice.uniform(1 - noise, 1 + noise)
        pace.observe(position, n, seconds)
        steps.append((n, seconds))
        position += n
    return steps


@given(
    token_s=st.floats(1e-6, 1e-3),
    share=st.floats(0.0, 1.0),
    step_s=st.floats(0.02, 1.0),
    max_tokens=st.sampled_from([512, 2048, 8192]),
)
def test_steps_take_what_they_may_take_on_any_machine(
    token_s: float, share: float, step_s: float, max_tokens: int
) -> None:
    """Once the sizes have grown each is within 15 % (and a block) of the time, or as large or small as can be."""
    slope_s = share * token_s / 8192  # up to: attention is half of the work at 8,192 tokens
    pace = Pace(step_s=step_s, block_size=BLOCK, max_tokens=max_tokens)
    position = sum(n for n, _ in read(pace, 30_000, token_s, slope_s))
    for _ in range(12):
        n = pace.step_tokens(position)
        seconds = n * (token_s + slope_s * (position + n / 2))
        pace.observe(position, n, seconds)
        block_s = BLOCK * seconds / n
        assert n == MIN_BLOCKS * BLOCK or seconds <= 1.15 * step_s + block_s
        assert n == pace.largest or seconds >= 0.85 * step_s - block_s
        position += n


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 9000), st.floats(0.0, 100.0)), max_size=30))
def test_any_history_gives_whole_blocks_between_the_least_and_the_most(history: list[tuple[int, int, float]]) -> None:
    """Also where the steps made no sense."""
    pace = Pace(step_s=0.06, block_size=BLOCK, max_tokens=2048)
    for position, n, seconds in history:
        pace.observe(position, n, seconds)
        for alone in (False, True):
            size = pace.step_tokens(position, alone=alone)
            assert size % BLOCK == 0
            assert MIN_BLOCKS * BLOCK <= size <= 2016
        assert pace.seconds(position, position + 100) >= 0
    assert pace.seconds(100, 50) == 0


def test_the_first_step_is_a_few_blocks_and_none_is_more_than_twice_the_largest_before() -> None:
    """A machine that nobody knows yet is not asked for 8,000 tokens at once."""
    pace = Pace(step_s=0.06, block_size=16, max_tokens=8192)
    sizes = [n for n, _ in read(pace, 60_000, 1e-7, 0.0)]
    assert sizes[:9] == [64, 128, 256, 512, 1024, 2048, 4096, 8176, 8176]


def test_steps_shrink_as_the_document_grows() -> None:
    """The further back a token looks, the fewer fit into the same time; with noise of a fifth too."""
    pace = Pace(step_s=0.06, block_size=16, max_tokens=8192)
    steps = read(pace, 120_000, 3e-5, 8e-10, noise=0.2)
    seconds = sorted(seconds for _, seconds in steps[8:])
    assert seconds[-1] < 0.1
    assert 0.05 < seconds[len(seconds) // 2] < 0.07
    quarters = [sum(n for n, _ in steps[8 + start :][:10]) for start in (0, len(steps) // 3, 2 * len(steps) // 3)]
    assert all(before > after for before, after in pairwise(quarters))


def test_alone_a_step_may_be_longer() -> None:
    """With nobody to keep waiting, fewer steps cost less: half as long again, or what is asked for."""
    for asked, expected in ((None, 1488), (0.2, 1984)):
        pace = Pace(step_s=0.1, block_size=16, max_tokens=8192, alone_step_s=asked)
        read(pace, 8192, 1e-4, 0.0)
        assert [pace.step_tokens(8192), pace.step_tokens(8192, alone=True)] == [992, expected]


def test_one_step_that_stood_behind_something_else_changes_little() -> None:
    """A step of a minute among steps of 0.1 s: the next one is not a few blocks, and soon all is as before."""
    pace = Pace(step_s=0.1, block_size=16, max_tokens=8192)
    read(pace, 20_000, 1e-4, 0.0)
    pace.observe(20_000, 992, 60.0)
    assert pace.step_tokens(20_992) >= 480
    read(pace, 20_000, 1e-4, 0.0)
    assert pace.step_tokens(20_992) >= 900


def test_remaining_seconds_are_those_of_the_machine() -> None:
    """Learnt from the beginning of one document, told for the rest of it."""
    pace = Pace(step_s=0.06, block_size=16, max_tokens=8192)
    assert pace.seconds(0, 10_000) == 0
    read(pace, 8192, 3e-5, 8e-10)
    expected = 50_000 * (3e-5 + 8e-10 * 35_000)
    assert abs(pace.seconds(10_000, 60_000) / expected - 1) < 0.02
