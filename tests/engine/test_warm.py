"""Reading ahead in steps: it goes on where the cache ends, gives up where nothing stays, and keeps what is pinned."""

from __future__ import annotations

import asyncio

import pytest
from desk import SMALL_STEP_TOKENS, STEP_S, Desk, gather
from simulated import BLOCK, SimulatedBridge, document
from virtual_clock import run

from engine.base import EngineError
from engine.registered import Registered
from engine.warm import EARLY_S


class LosingBridge(SimulatedBridge):
    """Loses all it holds before these reads (1 is the first)."""

    losing: frozenset[int] = frozenset()

    async def read(self, prefix: Registered, num_tokens: int, priority: int, request_id: str) -> int | None:
        if len(self.reads) + 1 in self.losing:
            assert self.cache.reset()
        return await super().read(prefix, num_tokens, priority, request_id)


def losing_desk(losing: frozenset[int], residency: str) -> Desk:
    desk = Desk(residency=residency)
    desk.bridge.__class__ = LosingBridge
    assert isinstance(desk.bridge, LosingBridge)
    desk.bridge.losing = losing
    return desk


@pytest.mark.parametrize("residency", ["told", "late", "silent"])
def test_steps_are_whole_blocks_and_each_begins_where_the_cache_ends(residency: str) -> None:
    """3,205 tokens: 200 whole blocks are computed once, the 5 tokens behind them and the steps' own are nothing."""
    desk = Desk(residency=residency)
    cold = document(1, 3205)

    async def scene() -> None:
        assert await desk.door.warm(cold, "registered").wait() == "warm"

    run(scene())
    num_steps = len(desk.bridge.reads)
    assert 16 <= num_steps <= 20
    assert desk.bridge.computed[cold.id] == 3200 + num_steps
    assert desk.bridge.resident_tokens(cold) == 3200


@pytest.mark.parametrize("num_tokens", [1, BLOCK - 1])
def test_a_prefix_of_less_than_a_block_is_warm_as_it_is(num_tokens: int) -> None:
    """Nothing of it can be cached."""
    desk = Desk()

    async def scene() -> None:
        warming = desk.door.warm(document(1, num_tokens), "registered")
        assert (warming.state, warming.progress) == ("warm", 1.0)
        assert (await desk.ask(document(1, num_tokens))).waited_for is None

    run(scene())
    assert desk.bridge.reads == []


def test_what_is_cached_though_nobody_told_is_found_in_a_few_steps() -> None:
    """No token is computed again; steps that find all they ask for reach further each."""
    desk, heard = Desk(residency="silent"), document(1, 6400)

    async def scene() -> None:
        async for _ in desk.bridge._stream(heard, [*heard.token_ids.tolist(), 1], 1, 0, "somebody else"):
            pass
        before = desk.bridge.computed[heard.id]
        assert await desk.door.warm(heard, "resumed").wait() == "warm"
        assert desk.bridge.computed[heard.id] - before == len(desk.bridge.reads) <= 16

    run(scene())


@pytest.mark.parametrize("residency", ["told", "late", "silent"])
def test_what_is_lost_once_is_read_again(residency: str) -> None:
    """A reset of the cache in the middle: the reading goes on and ends warm."""
    desk, cold = losing_desk(frozenset({5}), residency), document(1, 3200)

    async def scene() -> None:
        assert await desk.door.warm(cold, "registered").wait() == "warm"
        assert (await desk.ask(cold)).cached_tokens == 3200

    run(scene())
    assert desk.bridge.computed[cold.id] > 3200 + 4 * 160


@pytest.mark.parametrize("residency", ["told", "late", "silent"])
def test_what_does_not_stay_is_given_up_and_a_question_reads_it_in_one_piece(residency: str) -> None:
    """Three times all is lost: one sentence with the numbers. Who asks holds what he computes."""
    desk, cold = losing_desk(frozenset(range(100)), residency), document(1, 6400)

    async def scene() -> None:
        with pytest.raises(EngineError, match=r"6400 tokens does not stay .* 3 times all but its first 0 tokens") as no:
            await desk.door.warm(cold, "registered").wait()
        assert no.value.code == "does_not_stay"
        desk.check_all_is_quiet()
        answer = await desk.ask(cold)
        assert answer.waited_for == "read"
        assert answer.cached_tokens is not None
        assert answer.cached_tokens < 3200

    run(scene())
    assert len(desk.bridge.reads) <= 12
    assert desk.bridge.resident_tokens(cold) == 6400
    desk.check_all_is_quiet()


def through_the_pool(pinned: bool) -> tuple[int, int]:
    """Twelve documents pass through a pool that holds four; what is left of the first one, and the touches."""
    first = document(0, 512)
    desk = Desk(num_tokens=2048, pinned=lambda: [first] if pinned else [])

    async def scene() -> None:
        await desk.ask(first)
        for number in range(1, 13):
            await desk.ask(document(number, 512))

    run(scene())
    desk.check_all_is_quiet()
    return desk.bridge.resident_tokens(first), desk.door.snapshot().touched


def test_a_pinned_prefix_is_touched_before_the_pool_has_turned() -> None:
    """It is never lost, at one token a touch; without the pin it is."""
    assert through_the_pool(pinned=False) == (0, 0)
    resident, touched = through_the_pool(pinned=True)
    assert resident == 512
    assert 6 <= touched <= 14


def test_a_pinned_prefix_that_was_lost_all_the_same_is_read_again() -> None:
    """A reset of the cache: at the next turn of the pool it comes back, in steps."""
    first = document(0, 1024)
    desk = Desk(num_tokens=2560, pinned=lambda: [first])

    async def scene() -> None:
        await desk.ask(first)
        assert desk.bridge.cache.reset()
        for number in range(1, 4):
            await desk.ask(document(number, 512))
        desk.door.keep_alive()

    run(scene())
    assert desk.bridge.resident_tokens(first) == 1024
    assert desk.bridge.reads.count(first.id) > 3
    desk.check_all_is_quiet()


def test_what_is_pinned_keeps_its_room_and_a_question_that_needs_it_runs_alone() -> None:
    """Half of the pool is pinned: of three documents that would fit without it, one is in use at a time."""
    first = document(0, 1024)
    desk = Desk(num_tokens=2048, pinned=lambda: [first])
    hot: list[int] = []
    desk.bridge.on_step = lambda: hot.append(sum(one.is_hot for one in desk.door._documents))

    async def scene() -> None:
        await desk.ask(first)
        await gather(*(desk.ask(document(number, 512), number=number) for number in range(1, 4)))

    run(scene())
    assert max(hot) == 1
    assert desk.bridge.resident_tokens(first) == 1024


def test_a_pinned_prefix_in_use_is_hot_and_not_idle() -> None:
    """So that what is pinned or in use can be added up, each prefix once."""
    first, second = document(1, 512), document(2, 512)
    desk = Desk(num_tokens=4096, pinned=lambda: [first, second])
    seen: list[tuple[int, int]] = []

    async def scene() -> None:
        await desk.ask(first, number=0, max_tokens=2)

    desk.bridge.on_step = lambda: seen.append(
        (desk.door.snapshot().hot_tokens >= 512, desk.door.snapshot().idle_pinned_tokens)
    )
    run(scene())
    assert set(seen) == {(True, 512)}
    assert (desk.door.snapshot().hot_tokens, desk.door.snapshot().idle_pinned_tokens) == (0, 1024)


def queueing_desk() -> Desk:
    return Desk(queues=True)


def test_a_queued_step_finds_what_the_one_before_it_computes() -> None:
    """The next step waits in the engine while one runs: each token is computed once all the same."""
    desk, cold = queueing_desk(), document(1, 3205)

    async def scene() -> None:
        assert await desk.door.warm(cold, "registered").wait() == "warm"

    run(scene())
    assert desk.bridge.computed[cold.id] == 3200 + len(desk.bridge.reads)
    desk.check_all_is_quiet()


def test_with_a_queued_step_no_step_of_the_engine_goes_by_without_reading() -> None:
    """An answer runs beside the read: the engine never draws a token alone while we hear of a step and send the next.
    No step of it is longer than its own limit."""
    desk, warm, cold = queueing_desk(), document(0, 320), document(1, 3200)

    async def scene() -> None:
        await desk.ask(warm)
        answer = asyncio.create_task(desk.ask(warm, max_tokens=400))
        await asyncio.sleep(0.1)
        await desk.door.warm(cold, "registered").wait()
        answer.cancel()
        await asyncio.wait({answer})

    run(scene())
    reads = [any(name.startswith(f"read-{cold.id}") for name in step.num_tokens) for step in desk.bridge.steps]
    first, last = reads.index(True), len(reads) - reads[::-1].index(True)
    assert last - first >= 3200 // SMALL_STEP_TOKENS
    assert all(reads[first:last])
    assert max(sum(step.num_tokens.values()) for step in desk.bridge.steps) <= SMALL_STEP_TOKENS


def test_only_just_before_a_step_ends_two_wait_behind_it() -> None:
    """Two that wait all the time would come into one step of the engine, which is then twice as long."""
    desk, cold = queueing_desk(), document(1, 6400)
    seen: list[int] = []

    async def scene() -> None:
        warming = desk.door.warm(cold, "registered")
        while not warming.has_ended:
            await asyncio.sleep(EARLY_S / 2)
            seen.append(desk.bridge.num_requests)
        assert await warming.wait() == "warm"

    run(scene())
    assert max(seen) == 3
    assert sum(number > 2 for number in seen) < len(seen) / 10


def test_a_question_goes_before_a_queued_step() -> None:
    """It waits for the step that runs; the queued one, of lower priority, stands behind it."""
    desk, warm, cold = queueing_desk(), document(0, 320), document(1, 6400)

    async def scene() -> None:
        await desk.ask(warm)
        warming = desk.door.warm(cold, "registered")
        waits = [(await desk.ask(warm, at_s=0.37, number=number)).first_token_after_s for number in range(1, 6)]
        assert max(waits) <= 3 * STEP_S
        assert await warming.wait() == "warm"

    run(scene())


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.3, 0.5, 0.77])
def test_a_cancelled_read_takes_its_queued_step_back(after_s: float) -> None:
    """Whenever it comes: nothing of the read is left in the engine, and a later one computes only what is missing."""
    desk, cold = queueing_desk(), document(1, 6400)

    async def scene() -> None:
        warming = desk.door.warm(cold, "registered")
        await asyncio.sleep(after_s)
        assert desk.door.cancel(cold.id)
        assert await warming.wait() == "cancelled"
        await asyncio.sleep(1.0)
        desk.check_all_is_quiet()
        before = desk.bridge.resident_tokens(cold)
        computed = desk.bridge.computed[cold.id]
        num_reads = len(desk.bridge.reads)
        assert await desk.door.warm(cold, "registered").wait() == "warm"
        assert desk.bridge.computed[cold.id] - computed == 6400 - before + len(desk.bridge.reads) - num_reads

    run(scene())


def test_of_two_documents_the_second_is_not_kept_waiting_by_a_queued_step_of_the_first() -> None:
    """A question on another document takes the queued step back and is read next."""
    desk, long, short = queueing_desk(), document(1, 6400), document(2, 320)

    async def scene() -> None:
        warming = desk.door.warm(long, "registered")
        await asyncio.sleep(0.5)
        answer = await desk.ask(short)
        assert answer.first_token_after_s <= 3 * STEP_S + 0.4
        assert desk.door.snapshot().reading in (None, long.id)
        assert await warming.wait() == "warm"

    run(scene())
    desk.check_all_is_quiet()
