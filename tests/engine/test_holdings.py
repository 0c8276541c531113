"""What is held, told from numbered batches that come late, twice, out of order or not at all."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from cache_events import Teller
from hypothesis import given
from hypothesis import strategies as st

from engine.blocks import NoRoomError
from engine.holdings import Batch, Cleared, Doubt, Holdings, Removed, Stored


def batch(number: int, *changes: Stored | Removed | Cleared | Doubt, time_s: float | None = None) -> Batch:
    return Batch(number, float(number) if time_s is None else time_s, changes)


def test_copies_of_a_block_are_counted() -> None:
    """vLLM keeps a block that was computed twice twice: the first removal leaves one."""
    held = Holdings(10)
    held.apply(batch(0, Stored((1, 2)), Stored((1,))))
    assert (held.resident_blocks, held.run((1, 2))) == (3, 2)
    held.apply(batch(1, Removed((1,))))
    assert held.run((1, 2)) == 2
    held.apply(batch(2, Removed((1,))))
    assert (held.resident_blocks, held.run((1, 2)), held.run((2,))) == (1, 0, 1)
    assert (held.stored_blocks, held.evicted_blocks) == (3, 2)


def test_missing_batch_is_waited_for_and_a_replay_brings_it() -> None:
    """Until then the later one changes nothing."""
    held = Holdings(10)
    assert held.apply(batch(0, Stored((1,))))
    assert not held.apply(batch(2, Removed((1,))))
    assert (held.run((1,)), held.next_number, held.is_missing_some) == (1, 1, True)
    assert held.apply(batch(1, Stored((1, 2))))
    held.end_replay()
    assert (held.run((1, 2)), held.resident_blocks, held.why_unknown) == (2, 2, None)


def test_batch_that_is_gone_makes_everything_unknown_until_the_cache_is_cleared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Said once; nothing of before is believed afterwards."""
    held = Holdings(10)
    held.apply(batch(0, Stored((1,))))
    held.apply(batch(3, Stored((2,))))
    held.end_replay()
    held.apply(batch(4, Stored((3,))))
    assert held.why_unknown == "batches 1 to 2 of the KV events were lost"
    assert (held.run((1,)), held.resident_blocks, held.losses) == (None, None, 1)
    assert [record.getMessage() for record in caplog.records] == [
        "What the cache holds is not known until it is emptied or restarted: batches 1 to 2 of the KV events were lost."
    ]
    held.apply(batch(5, Cleared(), Stored((4,))))
    assert (held.run((4, 1)), held.resident_blocks, held.clears) == (1, 1, 1)


def test_core_that_starts_again_has_an_empty_pool() -> None:
    """A low number in a batch made later than the last one is another core's, not a repetition."""
    held = Holdings(10)
    for number in range(3):
        held.apply(batch(number, Stored((number,))))
    held.apply(batch(0, Stored((0,)), time_s=0.0))
    assert held.resident_blocks == 3
    held.apply(batch(0, Stored((7,)), time_s=100.0))
    assert (held.resident_blocks, held.run((7,)), held.next_number) == (1, 1, 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((Removed((1,)),), "a block was removed that was never stored"),
        ((Stored((1, 2, 3, 4)),), "4 blocks were stored in a pool of 3"),
        ((Doubt("it is odd"),), "it is odd"),
    ],
)
def test_events_that_can_not_be_true_are_not_believed(
    changes: tuple[Stored | Removed | Doubt, ...], reason: str
) -> None:
    """A count that contradicts itself or the pool is no count."""
    held = Holdings(4)
    held.apply(batch(0, *changes))
    assert (held.why_unknown, held.run(())) == (reason, None)


def test_reset_is_believed_before_its_event() -> None:
    """What the core tells before that event is older than the reset."""
    held = Holdings(10)
    held.apply(batch(0, Stored((1,))))
    held.expect_clear()
    assert held.run((1,)) == 0
    held.apply(batch(1, Stored((2,))))
    assert held.run((2,)) == 0
    held.apply(batch(2, Cleared(), Stored((3,))))
    assert (held.run((3, 2)), held.resident_blocks) == (1, 1)


def test_every_moment_since_a_mark_is_remembered() -> None:
    """Each run that a lookup could have found since, clears included; None where the memory does not reach back."""
    held = Holdings(10)
    held.apply(batch(0, Stored((1, 2, 3))))
    mark = held.mark
    assert held.runs_since(mark, (1, 2, 3)) == {3}
    held.apply(batch(1, Removed((2,)), Stored((9,)), Cleared(), Stored((1,))))
    assert held.runs_since(mark, (1, 2, 3)) == {3, 1, 0}
    assert held.runs_since(held.mark, (1, 2, 3)) == {1}
    assert (held.was_stored_since(mark, 9), held.was_stored_since(mark, 3)) == (True, False)
    held.apply(batch(3))
    held.end_replay()
    held.apply(batch(4, Cleared()))
    assert held.runs_since(mark, (1, 2, 3)) is None


def told(calls: list[tuple[bool, list[int], str | None]], num_blocks: int) -> Teller:
    """A cache after these calls: a prompt that is asked, or a reset."""
    teller = Teller(num_blocks, 2)
    for is_reset, prompt, salt in calls:
        if is_reset:
            teller.cache.reset()
        else:
            try:
                teller.cache.ask(prompt, [1, 0, 1], salt)
            except NoRoomError:
                continue
            teller.step()
    return teller


calls = st.lists(
    st.tuples(
        st.integers(0, 7).map(lambda number: number == 0),
        st.lists(st.integers(0, 1), min_size=1, max_size=12),
        st.sampled_from([None, "s"]),
    ),
    min_size=1,
    max_size=40,
)


@given(calls, st.integers(6, 16), st.integers(0, 60), st.randoms(use_true_random=False))
def test_what_is_said_is_true_whatever_the_way_does_to_the_batches(
    sequence: list[tuple[bool, list[int], str | None]], num_blocks: int, num_kept: int, chance: random.Random
) -> None:
    """Dropped, repeated and swapped batches, replays of the last `num_kept`: known means true, a clear makes it known.

    With replays that reach back far enough everything is known in the end.
    """
    teller = told(sequence, num_blocks)
    truth: list[Counter[int]] = []
    for one in teller.batches:
        counts = Counter(truth[-1] if truth else ())
        for change in one.changes:
            if isinstance(change, Stored):
                counts.update(change.ids)
            elif isinstance(change, Removed):
                counts.subtract(change.ids)
            else:
                counts.clear()
        truth.append(+counts)
    sent = [one for one in teller.batches for _ in range(chance.choice([0, 1, 1, 1, 2]))]
    for position in range(len(sent) - 1):
        if chance.random() < 0.2:
            sent[position], sent[position + 1] = sent[position + 1], sent[position]
    held = Holdings(num_blocks)

    def check() -> None:
        if held.why_unknown is None:
            counts = truth[held.next_number - 1] if held.next_number else Counter[int]()
            assert held.resident_blocks == counts.total()
            assert all(held.run((one,)) == (one in counts) for told_of in truth for one in told_of)

    def replay(newest: int) -> None:
        for one in teller.batches[max(0, newest + 1 - num_kept) : newest + 1]:
            if one.number >= held.next_number:
                held.apply(one)
                check()
        held.end_replay()

    newest = -1
    for one in sent:
        newest = max(newest, one.number)
        in_order = held.apply(one)
        assert in_order is not held.is_missing_some
        check()
        if not in_order and chance.random() < 0.5:
            replay(newest)
            check()
    replay(len(teller.batches) - 1)
    check()
    if num_kept >= len(teller.batches):
        assert (held.why_unknown, held.losses, held.next_number) == (None, 0, len(teller.batches))
    last = Batch(held.next_number, 1e6, (Cleared(), Stored((5,))))
    held.apply(last)
    assert (held.resident_blocks, held.run((5,))) == (1, 1)
