"""The ideal cache that a played trace is held against."""

from __future__ import annotations

from eight_people import ideal_reuse
from hypothesis import given
from hypothesis import strategies as st

TOKENS = st.lists(st.integers(0, 2), max_size=12).map(tuple)
CALLS = st.lists(st.tuples(TOKENS.filter(len), TOKENS), max_size=8)


def test_it_gives_back_whole_blocks_of_what_was_asked_and_answered() -> None:
    """Never the whole prompt: one token is always computed."""
    asked = (1, 2, 3, 4)
    assert ideal_reuse([(asked, (5, 6)), (asked, ()), ((*asked, 5, 6, 7), ())], 2, None) == [0, 2, 6]


def test_a_full_pool_forgets_what_was_used_longest_ago() -> None:
    """The first document has gone when it is asked again; the second is still there."""
    first, second = (1,) * 8 + (9,), (2,) * 8 + (9,)
    assert ideal_reuse([(first, ()), (second, ()), (second, ()), (first, ())], 4, 8) == [0, 0, 8, 0]


@given(CALLS, st.integers(1, 4), st.integers(4, 40))
def test_more_room_never_gives_back_less_and_never_all(
    calls: list[tuple[tuple[int, ...], tuple[int, ...]]], block: int, capacity: int
) -> None:
    """A bound on what any cache of such blocks can do."""
    small, large = ideal_reuse(calls, block, capacity), ideal_reuse(calls, block, None)
    assert sum(small) <= sum(large)
    assert all(reused < len(prompt) for reused, (prompt, _) in zip(large, calls, strict=True))
