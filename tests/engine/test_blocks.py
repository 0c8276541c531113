"""vLLM's block rules, one claim each, and the laws that hold after any calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.blocks import BlockCache, NoRoomError

A, B, C = (list(range(start, start + 8)) for start in (0, 100, 200))


def test_whole_blocks_are_found_again_and_the_rest_is_not() -> None:
    """Of 10 tokens in blocks of 4, two blocks."""
    cache = BlockCache(num_blocks=20, block_size=4)
    prompt = [*A, 8, 9]
    assert [cache.ask(prompt, [1]) for _ in range(2)] == [0, 8]


def test_last_token_of_a_prompt_is_always_computed() -> None:
    """A block-aligned prompt asked again computes its last block again, and keeps both copies."""
    cache = BlockCache(num_blocks=20, block_size=4)
    assert [cache.ask(A, [1]) for _ in range(3)] == [0, 4, 4]
    assert cache.num_known == 4
    assert cache.ask([*A, 9], [1]) == 8


def test_block_is_found_only_behind_the_same_beginning() -> None:
    """The hash is a chain: equal tokens after another first block are no hit."""
    cache = BlockCache(num_blocks=20, block_size=4)
    cache.ask([*A, *B, 1], [1])
    assert cache.ask([*C, *B, 1], [1]) == 0
    assert cache.ask([*A, *C, 1], [1]) == 8


def test_salts_do_not_share() -> None:
    """None, and each salt, are worlds apart; an empty salt is none."""
    cache = BlockCache(num_blocks=40, block_size=4)
    assert [cache.ask([*A, 1], [1], salt) for salt in (None, "a", "b", "None", "")] == [0, 0, 0, 0, 8]
    assert [cache.ask([*A, 1], [1], salt) for salt in (None, "a", "b", "None")] == [8, 8, 8, 8]


def test_answers_whole_blocks_are_cached_but_its_last_token_is_not_computed() -> None:
    """8 prompt and 9 answer tokens make 17, of which 16 are computed: 4 blocks."""
    cache = BlockCache(num_blocks=20, block_size=4)
    answer = list(range(50, 59))
    cache.ask(A, answer)
    assert cache.ask([*A, *answer, 1, 2, 3], [1]) == 16
    cache.reset()
    cache.ask(A, answer[:8])
    assert cache.ask([*A, *answer, 1, 2, 3], [1]) == 12


def test_longest_unused_prefix_goes_first_and_its_end_before_its_beginning() -> None:
    """Recency is the last time of being freed; of one chain the tail is taken first."""
    cache = BlockCache(num_blocks=7, block_size=4)  # six usable blocks
    cache.ask([*A, 1], [1])
    cache.ask([*B, 1], [1])
    cache.ask([*A, 1], [1])  # a hit makes A younger
    cache.ask([*C, 1], [1])  # takes two free blocks and the end of B
    assert [cache.count_cached([*text, 1]) for text in (A, B, C)] == [8, 4, 8]


def test_blocks_that_hold_no_whole_block_are_reused_first() -> None:
    """Questions that share a prefix do not push other prefixes out."""
    cache = BlockCache(num_blocks=7, block_size=4)
    cache.ask([*A, 1], [1])
    cache.ask([*B, 1], [1])
    for question in range(20):
        cache.ask([*A, question], [1])
    assert cache.count_cached([*B, 1]) == 8


def test_running_sequences_share_blocks_and_keep_them() -> None:
    """A block is known as soon as it is scheduled, and not taken while somebody holds it."""
    cache = BlockCache(num_blocks=7, block_size=4)
    first = cache.begin([*A, 1])
    cache.compute(first)
    second = cache.begin([*A, 2])
    assert second.num_cached == 8
    cache.compute(second)
    assert cache.num_free == 2
    with pytest.raises(NoRoomError):
        cache.begin([*C, 1])
    assert not cache.reset()
    cache.free(first)
    cache.free(second)
    assert cache.num_free == 6
    assert cache.reset()
    assert cache.count_cached([*A, 1]) == 0


def test_two_staggered_readings_of_one_text_do_the_work_twice() -> None:
    """A running sequence never looks up again: chunks computed by another meanwhile are no hit."""
    cache = BlockCache(num_blocks=20, block_size=4)
    first, second = cache.begin([*A, *B, 1]), cache.begin([*A, *B, 2])
    assert second.num_cached == 0
    for run in (first, second):
        cache.compute(run, 8)
    for run in (first, second):
        cache.compute(run)
        cache.free(run)
    assert cache.num_known == 8
    assert cache.count_cached([*A, *B, 3]) == 16


calls = st.lists(
    st.tuples(
        st.sampled_from(["ask", "hold", "release", "reset"]),
        st.lists(st.integers(0, 1), min_size=1, max_size=14),
        st.sampled_from([None, "s"]),
        st.lists(st.integers(0, 1), min_size=1, max_size=6),
    ),
    max_size=40,
)


@given(calls, st.integers(6, 12), st.integers(2, 4))
def test_free_and_held_blocks_are_the_pool_whatever_is_called(
    sequence: list[tuple[str, list[int], str | None, list[int]]], num_blocks: int, block_size: int
) -> None:
    """No block is lost or counted twice, and a lookup never returns a whole prompt."""
    cache = BlockCache(num_blocks, block_size)
    held = []
    for what, prompt, salt, output in sequence:
        try:
            if what == "ask":
                assert cache.ask(prompt, output, salt) < len(prompt)
            elif what == "hold":
                run = cache.begin(prompt, salt)
                try:
                    cache.compute(run)
                except NoRoomError:
                    cache.free(run)
                else:
                    held.append(run)
            elif what == "release" and held:
                cache.free(held.pop(0))
            elif what == "reset":
                assert cache.reset() is (not held)
        except NoRoomError:
            pass
        num_held = len({block.number for run in held for block in run.blocks})
        assert cache.num_free + num_held == num_blocks - 1
        assert cache.num_known <= num_blocks - 1
    for run in held:
        cache.free(run)
    assert cache.num_free == num_blocks - 1
