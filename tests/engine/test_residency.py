"""What a question will find in the cache, said before it is asked and held against what it found."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from cache_events import Teller, hasher_for
from hypothesis import given
from hypothesis import strategies as st

from engine.blocks import NoRoomError, Run
from engine.holdings import Batch, Doubt, Holdings
from engine.registered import Registered
from engine.residency import Residency

A, B = list(range(8)), list(range(100, 108))


def registered(token_ids: list[int], salt: str | None = None) -> Registered:
    return Registered("id", "namespace", "name", np.array(token_ids, dtype=np.int32), salt)


class Followed:
    """A cache of blocks of 4, its events applied as soon as a step ends."""

    def __init__(self, num_blocks: int = 20, block_size: int = 4) -> None:
        self.teller = Teller(num_blocks, block_size)
        self.held = Holdings(num_blocks)
        self.residency = Residency(hasher_for(block_size), [self.held])

    def step(self) -> None:
        for batch in self.teller.step():
            self.held.apply(batch)
        self.residency.on_change()

    def ask(self, prompt: list[int], salt: str | None = None, output: tuple[int, ...] = (1,)) -> int:
        cached = self.teller.cache.ask(prompt, output, salt)
        self.step()
        return cached

    def reset(self) -> None:
        clears = [self.held.clears]
        if self.teller.cache.reset():
            self.residency.reset(clears)


def test_whole_blocks_from_the_start_are_resident() -> None:
    """A prefix of 10 tokens in blocks of 4 is resident with 8; of another one that begins alike, the same block."""
    followed = Followed()
    prefix, alike = registered([*A, 8, 9]), registered([*A[:4], *B])
    assert followed.residency.resident_tokens(prefix) == 0
    followed.ask([*A, 8, 9, 1, 2, 3])
    assert (followed.residency.resident_tokens(prefix), followed.residency.resident_tokens(alike)) == (8, 4)
    assert followed.residency.resident_tokens(registered([*A, 8, 9], "salt")) == 0
    assert (followed.residency.resident_blocks, followed.residency.stored_blocks) == (3, 3)


def test_prediction_covers_the_tail_and_leaves_the_last_token_out() -> None:
    """The same question again finds its own tail, but never its last token; without a tail, not the last block."""
    followed = Followed()
    prefix = registered([*A, 8, 9])
    followed.ask([*A, 8, 9, 50, 51, 52, 53, 54, 55])
    predict = followed.residency.predict
    assert predict(prefix, [50, 51, 52, 53, 54, 55]).cached_tokens == 12
    assert predict(prefix, [50, 51, 52, 53, 54, 55, 56]).cached_tokens == 16
    assert predict(prefix, [50, 9, 9, 9, 9, 9, 9]).cached_tokens == 8
    assert predict(registered(A), []).cached_tokens == 4
    assert predict(registered(A[:3]), [3]).cached_tokens == 0
    assert predict(registered(A[:3]), [3, 4]).cached_tokens == 4


async def test_wrong_prediction_is_an_alarm_with_the_numbers(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing happened in between, yet vLLM found something else."""
    followed = Followed()
    followed.ask([*A, 1])
    residency, prefix = followed.residency, registered(A)
    residency.settle(residency.predict(prefix, [1, 2]), 8)
    residency.settle(residency.predict(prefix, [1, 2]), 4)
    await residency.confirm()
    assert (residency.predictions, residency.wrong_predictions, residency.uncertain_predictions) == (2, 1, 0)
    assert [record.getMessage() for record in caplog.records] == [
        "Wrong prediction: the cache was taken to hold 8 of 10 prompt tokens, vLLM found 4 (prefix id)."
    ]


async def test_change_before_the_question_was_let_in_makes_a_difference_uncertain() -> None:
    """Its lookup came after another request had taken a block; 0 would have been wrong all the same."""
    followed = Followed(num_blocks=4)
    followed.ask([*A, 1])
    residency, prefix = followed.residency, registered(A)
    predictions = [residency.predict(prefix, [1, 2]) for _ in range(2)]
    assert [prediction.cached_tokens for prediction in predictions] == [8, 8]
    followed.ask([*B[:4], 1])
    assert residency.resident_tokens(prefix) == 4
    residency.settle(predictions[0], 4)
    residency.settle(predictions[1], 0)
    await residency.confirm()
    assert (residency.predictions, residency.wrong_predictions, residency.uncertain_predictions) == (2, 1, 1)
    assert residency.evicted_blocks == 1


async def test_catching_up_waits_for_the_blocks_of_what_was_settled() -> None:
    """The events of a request may come after its answer: until they are in, the next prediction would be too low."""
    followed = Followed()
    residency, prefix = followed.residency, registered(A)
    prediction = residency.predict(prefix, [1, 2])
    reported = followed.teller.cache.ask([*A, 1, 2], (5, 6, 7))
    residency.settle(prediction, reported, (5, 6, 7))
    assert await residency.caught_up(limit_s=0) is False
    residency.settle(prediction, reported, (5, 6, 7))
    followed.step()
    assert await residency.caught_up(limit_s=0) is True
    assert residency.predict(prefix, [1, 2, 5, 6, 7]).cached_tokens == 12


async def test_a_read_is_in_when_all_whole_blocks_are_told() -> None:
    """The door has read a prefix; the event of its last block may be on its way still."""
    followed = Followed()
    residency, prefix = followed.residency, registered(A)
    followed.ask([*A[:4], 1])
    assert residency.resident_tokens(prefix) == 4
    assert await residency.read_is_in(prefix, limit_s=0) is False
    waiting = asyncio.ensure_future(residency.read_is_in(prefix, limit_s=60))
    await asyncio.sleep(0)
    assert not waiting.done()
    followed.ask([*A, 1])
    residency.on_change()
    assert await waiting
    assert residency.predict(prefix, [1, 2]).cached_tokens == 8


async def test_nothing_is_waited_for_where_nothing_new_was_computed() -> None:
    """All whole blocks came from the cache: no event follows."""
    followed = Followed()
    followed.ask([*A, 1])
    followed.residency.settle(followed.residency.predict(registered(A), [1]), 8, (5,))
    assert await followed.residency.caught_up(limit_s=0) is True


async def test_with_several_cores_any_of_them_may_have_answered() -> None:
    """A prefix is as resident as where most of it is; another core's lookup is no alarm."""
    tellers = [Teller(20, 4), Teller(20, 4)]
    holdings = [Holdings(20), Holdings(20)]
    residency = Residency(hasher_for(4), holdings)
    tellers[0].cache.ask([*A, 1], [1])
    tellers[1].cache.ask([*A[:4], 1], [1])
    for teller, held in zip(tellers, holdings, strict=True):
        held.apply(teller.step()[0])
    prediction = residency.predict(registered(A), [1])
    assert prediction.cached_tokens == 8
    residency.settle(prediction, 4)
    residency.settle(prediction, 0)
    await residency.confirm()
    assert (residency.predictions, residency.wrong_predictions, residency.uncertain_predictions) == (2, 1, 0)


def test_unknown_is_said_and_not_counted() -> None:
    """None, not 0, and nothing to settle."""
    followed = Followed()
    followed.held.apply(Batch(0, 0.0, (Doubt("it is odd"),)))
    residency = followed.residency
    prediction = residency.predict(registered(A), [1])
    residency.settle(prediction, 8)
    assert (residency.resident_tokens(registered(A)), residency.resident_blocks) == (None, None)
    assert (prediction.cached_tokens, residency.predictions, residency.why_unknown) == (None, 0, "it is odd")


texts = st.lists(st.integers(0, 1), min_size=1, max_size=14)
calls = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "ask", "reset"]), texts, texts, st.sampled_from([None, "s"]), texts),
    max_size=30,
)


@given(calls, st.integers(8, 20), st.integers(2, 4))
async def test_one_question_after_the_other_is_always_predicted(
    sequence: list[tuple[str, list[int], list[int], str | None, list[int]]], num_blocks: int, block_size: int
) -> None:
    """Predicted = found in every call, whatever was evicted or reset before; nothing is uncertain."""
    followed = Followed(num_blocks, block_size)
    residency = followed.residency
    prefixes: dict[tuple[tuple[int, ...], str | None], Registered] = {}
    num_asked = 0
    for what, text, tail, salt, output in sequence:
        if what == "reset":
            followed.reset()
            continue
        prefix = prefixes.setdefault((tuple(text), salt), registered(text, salt))
        prediction = residency.predict(prefix, tail)
        try:
            found = followed.ask([*text, *tail], salt, tuple(output))
        except NoRoomError:
            followed.step()
            continue
        assert prediction.cached_tokens == found
        num_asked += 1
        residency.settle(prediction, found, output)
        assert await residency.caught_up(limit_s=0)
        for (ids, of_salt), other in prefixes.items():
            assert residency.resident_tokens(other) == followed.teller.cache.count_cached([*ids, 2], of_salt)
    assert (residency.predictions, residency.wrong_predictions) == (num_asked, 0)
    assert residency.uncertain_predictions == 0


@given(calls, st.integers(8, 20))
async def test_questions_at_the_same_time_are_never_called_wrong(
    sequence: list[tuple[str, list[int], list[int], str | None, list[int]]], num_blocks: int
) -> None:
    """Each is predicted while others run, let in later, settled at its end: a difference is explained by the events."""
    followed = Followed(num_blocks, 2)
    residency, cache = followed.residency, followed.teller.cache
    waiting = [
        (residency.predict(registered(text, salt), tail), [*text, *tail], salt) for _, text, tail, salt, _ in sequence
    ]
    running: list[tuple[Run, int]] = []
    for number, (prediction, prompt, salt) in enumerate(waiting):
        if len(running) == 2:
            cache.free(running.pop(0)[0])
        try:
            run = cache.begin(prompt, salt)
        except NoRoomError:
            continue
        running.append((run, number))
        try:
            cache.compute(run)
        except NoRoomError:
            cache.free(running.pop()[0])
        followed.step()
        residency.settle(prediction, run.num_cached)
    await residency.confirm()
    assert residency.wrong_predictions == 0
