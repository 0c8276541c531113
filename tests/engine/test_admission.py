"""Who may go to the engine when: counted on a simulated engine with vLLM's scheduling, on a clock that jumps."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest
from desk import STEP_S, Answer, Desk, gather, now
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import BLOCK, TOKEN_S, document
from virtual_clock import run

from engine.base import EngineError
from engine.pace import ALONE_FACTOR
from engine.room import SHARE
from engine.turns import PATIENCE


@pytest.mark.parametrize("residency", ["told", "late", "silent"])
def test_eight_first_questions_at_once_compute_a_document_once(residency: str) -> None:
    """1,600 tokens and eight tails: 1.1 times one prefill at most; after the read all go together."""
    desk = Desk(residency=residency)
    cold = document(1, 1600)

    async def scene() -> list[Answer]:
        return await gather(*(desk.ask(cold, number=n) for n in range(8)))

    answers = run(scene())
    assert {answer.waited_for for answer in answers} == {"read"}
    assert len({answer.placed_s for answer in answers}) == 1
    assert {answer.cached_tokens for answer in answers} == {1600}
    assert desk.bridge.computed[cold.id] <= 1.1 * 1600
    queue = desk.door.snapshot()
    assert (queue.reads, queue.joined) == (1, 7)
    desk.check_all_is_quiet()


@pytest.mark.parametrize("residency", ["told", "late", "silent"])
def test_of_first_questions_on_a_short_document_one_reads_it_for_all(residency: str) -> None:
    """Less than a step: nothing is read ahead, the others go at the first one's first token."""
    desk = Desk(residency=residency)
    cold = document(1, 7 * BLOCK)

    async def scene() -> list[Answer]:
        return await gather(*(desk.ask(cold, number=n) for n in range(8)))

    answers = run(scene())
    assert [answer.waited_for for answer in answers] == [None] + ["read"] * 7
    assert {answer.placed_s for answer in answers[1:]} == {answers[0].first_token_s}
    assert [answer.cached_tokens for answer in answers] == [0] + [7 * BLOCK] * 7
    assert desk.bridge.reads == []
    assert desk.door.snapshot().joined == 7
    desk.check_all_is_quiet()


def test_if_the_question_that_reads_fails_the_next_one_does() -> None:
    """Its error is its own: the others get their answers, and the document is computed once."""
    desk = Desk()
    cold = document(1, 7 * BLOCK)
    desk.bridge.failures = [EngineError("engine_failed", "It broke.")]

    async def scene() -> list[Answer | BaseException]:
        asked = (desk.ask(cold, number=n) for n in range(4))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, *rest = run(scene())
    assert isinstance(first, EngineError)
    assert [one.cached_tokens for one in rest if isinstance(one, Answer)] == [0, 7 * BLOCK, 7 * BLOCK]
    desk.check_all_is_quiet()


def test_a_failed_read_is_told_to_all_who_wait_for_it_and_the_next_question_begins_anew() -> None:
    """The engine's own sentence; nothing stays behind."""
    desk = Desk()
    cold = document(1, 1600)
    desk.bridge.failures = [EngineError("engine_failed", "It broke.")]

    async def scene() -> Answer:
        asked = (desk.ask(cold, number=n) for n in range(4))
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(error) for error in errors] == ["It broke."] * 4
        desk.check_all_is_quiet()
        return await desk.ask(cold)

    assert run(scene()).cached_tokens == 1600


def test_a_warm_question_during_a_read_waits_for_one_step_at_most() -> None:
    """20 warm questions while 4,800 cold tokens are read: each has its first token within a step and its own."""
    desk = Desk()
    warm, cold = document(1, 800), document(2, 4800)

    async def scene() -> list[Answer]:
        await desk.ask(warm)
        reading = asyncio.create_task(desk.ask(cold))
        answers = await gather(*(desk.ask(warm, number=n, at_s=0.2 + 0.2 * n) for n in range(20)))
        assert not reading.done()
        assert (await reading).waited_for == "read"
        return answers

    answers = run(scene())
    own_s = 8 * TOKEN_S
    assert {answer.waited_for for answer in answers} == {None}
    # What was begun while nothing else ran may be longer.
    assert max(answer.first_token_after_s for answer in answers) <= ALONE_FACTOR * STEP_S + own_s
    assert desk.bridge.computed[cold.id] <= 1.01 * 4800 + 400
    desk.check_all_is_quiet()


def test_steps_are_short_while_an_answer_runs() -> None:
    """The longest engine step beside a running answer takes about as long as asked for, to the end of the document."""
    desk = Desk(num_tokens=16_384, slope_s=1e-7)
    warm, cold = document(1, 800), document(2, 6400)

    async def scene() -> None:
        await desk.ask(warm)
        talking = asyncio.create_task(desk.ask(warm, number=1, max_tokens=300))
        await desk.ask(cold, at_s=0.05)
        assert not talking.done()
        await talking

    run(scene())
    both = [step for step in desk.bridge.steps if len(step.num_tokens) == 2]
    assert len(both) > 60
    assert max(step.seconds for step in both) <= 1.2 * STEP_S
    desk.check_all_is_quiet()


def test_a_stream_of_warm_questions_does_not_starve_the_cold_one() -> None:
    """Warm ones come so fast that one is always before its first token: the read goes on all the same."""
    desk = Desk()
    warm, cold = document(1, 320), document(2, 1600)

    async def scene() -> Answer:
        await desk.ask(warm)
        stream = [
            asyncio.create_task(desk.ask(warm, number=n, at_s=0.007 * n, num_tail=5, max_tokens=1)) for n in range(1500)
        ]
        answer = await desk.ask(cold, at_s=0.01)
        assert not all(task.done() for task in stream)
        for task in stream:
            task.cancel()
        await asyncio.gather(*stream, return_exceptions=True)
        return answer

    run(scene())
    desk.check_all_is_quiet()


def test_hundred_questions_over_six_documents_in_a_pool_of_three() -> None:
    """Many fewer prefills than questions, everybody gets an answer, never more hot than the pool's share."""
    desk = Desk(num_tokens=3 * 1280)
    documents = [document(n, 1024) for n in range(6)]
    dice = random.Random(3)
    hot: list[int] = []
    desk.bridge.on_step = lambda: hot.append(desk.door.snapshot().hot_tokens)

    async def scene() -> list[Answer]:
        asked = [
            desk.ask(dice.choice(documents), number=n, at_s=dice.uniform(0, 30), max_tokens=dice.randint(1, 8))
            for n in range(100)
        ]
        return await gather(*asked)

    answers = run(scene())
    assert len(answers) == 100
    assert max(hot) <= SHARE * 3 * 1280
    prefills = sum(desk.bridge.computed.values()) / 1024
    assert 6 <= prefills <= 40
    assert max(answer.placed_s - answer.arrived_s for answer in answers) < 40
    desk.check_all_is_quiet()


def test_questions_that_come_together_are_answered_document_by_document() -> None:
    """60 at once over six documents, room for two: each document is read once, and no more."""
    desk = Desk(num_tokens=2 * 1280)
    documents = [document(n, 1024) for n in range(6)]

    async def scene() -> list[Answer]:
        return await gather(*(desk.ask(documents[n % 6], number=n, max_tokens=1) for n in range(60)))

    run(scene())
    assert [desk.bridge.computed[one.id] // 1024 for one in documents] == [1] * 6
    assert desk.door.snapshot().reads == 6
    desk.check_all_is_quiet()


def test_short_documents_overtake_a_long_one_so_often_and_no_more() -> None:
    """A new short one comes at the end of each: the long one is through after eight of them."""
    desk = Desk(num_tokens=40_000)
    long = document(0, 16_000)
    finished: list[str] = []

    async def ask(number: int, num_tokens: int) -> None:
        registered = document(number, num_tokens)
        await desk.ask(registered, max_tokens=1)
        finished.append(registered.name)

    async def scene() -> None:
        asked = asyncio.create_task(ask(0, 16_000))
        await asyncio.sleep(0.01)
        for number in range(1, 21):
            await ask(number, 320)
        await asked

    run(scene())
    assert finished.index(long.name) == PATIENCE
    desk.check_all_is_quiet()


def test_what_is_being_read_is_not_put_aside_for_one_that_takes_as_long() -> None:
    """Three of one length at once: one after the other, as they came."""
    desk = Desk()
    documents = [document(n, 1600) for n in range(3)]

    async def scene() -> None:
        await gather(*(desk.ask(one, at_s=0.1 * n) for n, one in enumerate(documents)))

    run(scene())
    reads = desk.bridge.reads
    assert list(dict.fromkeys(reads)) == [one.id for one in documents]
    assert sum(before != after for before, after in pairwise(reads)) == 2


def test_a_question_comes_before_what_is_warmed_in_the_background() -> None:
    """The warming stands still for its document's read, and goes on from where it was."""
    desk = Desk()
    background, asked = document(1, 3200), document(2, 1600)

    async def scene() -> None:
        warming = desk.door.warm(background, "registered")
        await asyncio.sleep(0.5)
        assert warming.state == "reading"
        progress = warming.progress
        assert 0 < progress < 0.5
        await desk.ask(asked)
        assert warming.progress < 0.5
        assert await warming.wait() == "warm"
        assert warming.progress == 1.0

    run(scene())
    assert desk.bridge.computed[background.id] <= 1.05 * 3200
    first, last = desk.bridge.reads.index(asked.id), len(desk.bridge.reads) - desk.bridge.reads[::-1].index(asked.id)
    assert set(desk.bridge.reads[first:last]) == {asked.id}
    desk.check_all_is_quiet()


def test_a_warming_that_gets_a_question_is_promoted() -> None:
    """It overtakes what was to be warmed before it, and the tokens are computed once."""
    desk = Desk()
    one, other = document(1, 3200), document(2, 1600)

    async def scene() -> None:
        warmings = [desk.door.warm(one, "registered"), desk.door.warm(other, "registered")]
        await asyncio.sleep(0.5)
        answer = await desk.ask(other)
        assert answer.waited_for == "read"
        assert [warming.state for warming in warmings][1] == "warm"
        assert warmings[0].state != "warm"
        await warmings[0].wait()

    run(scene())
    queue = desk.door.snapshot()
    assert (queue.promoted, queue.cancelled, queue.reads) == (1, 0, 2)
    assert desk.bridge.computed[other.id] <= 1.05 * 1600
    desk.check_all_is_quiet()


def test_what_is_selected_is_warmed_before_what_comes_back_after_a_restart() -> None:
    """The order of causes, then of arrival; the second wish for one document is the first."""
    desk = Desk()
    documents = [document(n, 800) for n in range(4)]

    async def scene() -> None:
        warmings = [desk.door.warm(one, "restarted") for one in documents[:3]]
        warmings.append(desk.door.warm(documents[3], "selected"))
        assert desk.door.warm(documents[2], "selected") is warmings[2]
        for warming in warmings:
            await warming.wait()

    run(scene())
    order = [documents.index(next(d for d in documents if d.id == name)) for name in dict.fromkeys(desk.bridge.reads)]
    assert order == [2, 3, 0, 1]
    desk.check_all_is_quiet()


def test_a_cancelled_warming_stops_in_the_engine_and_a_later_one_goes_on_from_there() -> None:
    """Nothing is computed twice."""
    desk = Desk()
    cold = document(1, 3200)

    async def scene() -> None:
        warming = desk.door.warm(cold, "registered")
        await asyncio.sleep(1.0)
        assert desk.door.cancel(cold.id)
        assert await warming.wait() == "cancelled"
        await asyncio.sleep(0.001)
        desk.check_all_is_quiet()
        assert len(desk.bridge.aborted) == 1
        reached = warming.progress
        assert 0.2 < reached < 0.5
        assert not desk.door.cancel(cold.id)
        again = desk.door.warm(cold, "resumed")
        assert again.progress >= reached
        assert await again.wait() == "warm"

    run(scene())
    assert desk.bridge.computed[cold.id] <= 3200 + 40
    assert desk.door.snapshot().cancelled == 1
    desk.check_all_is_quiet()


def test_a_cancelled_warming_goes_on_for_the_questions_that_wait_for_it() -> None:
    """And the one who wished it is told that it was cancelled."""
    desk = Desk()
    cold = document(1, 1600)

    async def scene() -> None:
        warming = desk.door.warm(cold, "registered")
        asked = asyncio.create_task(desk.ask(cold, at_s=0.2))
        await asyncio.sleep(0.4)
        assert desk.door.cancel(cold.id)
        assert await warming.wait() == "cancelled"
        assert (await asked).cached_tokens == 1600

    run(scene())
    assert desk.bridge.aborted == []
    assert desk.door.snapshot().cancelled == 0


def test_a_read_that_nobody_waits_for_any_more_is_aborted() -> None:
    """Both questions are gone: so is the request in the engine; with a warming it goes on."""
    desk = Desk()
    cold = document(1, 3200)

    async def scene(warmed: bool) -> None:
        if warmed:
            warming = desk.door.warm(cold, "registered")
        tasks = [asyncio.create_task(desk.ask(cold, number=n)) for n in range(2)]
        await asyncio.sleep(0.6)
        tasks[0].cancel()
        await asyncio.sleep(0.2)
        assert desk.bridge.num_requests == 1
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.001)
        assert desk.bridge.num_requests == int(warmed)
        if warmed:
            assert await warming.wait() == "warm"

    run(scene(False))
    assert (desk.door.snapshot().cancelled, len(desk.bridge.aborted)) == (1, 1)
    run(scene(True))
    assert (desk.door.snapshot().cancelled, len(desk.bridge.aborted)) == (1, 1)
    desk.check_all_is_quiet()


def test_a_question_that_can_never_fit_is_refused_with_the_numbers() -> None:
    """The pool's tokens, or the context's; nothing is left behind."""
    desk = Desk(num_tokens=2048)

    async def scene() -> None:
        with pytest.raises(
            EngineError, match=r"2000 tokens, 60 of a question and one .* 2048 tokens that .* cache"
        ) as no:
            async with desk.door.enter(document(1, 2000), 60, "q"):
                pass
        assert no.value.code == "does_not_fit"
        with pytest.raises(EngineError, match="2048 tokens"):
            desk.door.warm(document(1, 2048), "registered")
        with pytest.raises(EngineError, match="100000 tokens that the engine was started for"):
            desk.door.warm(document(1, 100_000), "registered")
        desk.check_all_is_quiet()
        answer = await desk.ask(document(1, 2000), num_tail=20, max_tokens=1)
        assert answer.waited_for == "read"

    run(scene())


def test_an_old_question_that_needs_room_is_not_overtaken_for_ever() -> None:
    """Others keep one document in use without a break; the one that needs all of the pool gets it after its age."""
    desk = Desk(num_tokens=2048)
    busy, large = document(1, 512), document(2, 1700)

    async def scene() -> Answer:
        async def talk(at_s: float) -> None:
            await asyncio.sleep(at_s)
            while now() < 100:
                await desk.ask(busy, max_tokens=60)

        talkers = [asyncio.create_task(talk(0.03 * n)) for n in range(3)]
        answer = await desk.ask(large, at_s=1.0)
        for task in talkers:
            task.cancel()
        await asyncio.gather(*talkers, return_exceptions=True)
        return answer

    answer = run(scene())
    assert 5.0 < answer.placed_s - answer.arrived_s < 12.0
    desk.check_all_is_quiet()


def test_close_turns_away_who_waits_and_leaves_no_task() -> None:
    """Warmings are cancelled, questions get one sentence."""
    desk = Desk()

    async def scene() -> None:
        warming = desk.door.warm(document(1, 3200), "registered")
        asked = asyncio.create_task(desk.ask(document(2, 3200)))
        await asyncio.sleep(0.5)
        await desk.door.close()
        with pytest.raises(EngineError, match="stops"):
            await asked
        assert await warming.wait() == "cancelled"
        with pytest.raises(EngineError, match="stops"):
            await desk.ask(document(3, 100))

    run(scene())
    desk.check_all_is_quiet()


def test_between_two_steps_a_question_has_the_time_of_one_for_its_first_token() -> None:
    """A step is 112 tokens here, and a second holds 8 of them; while a first token is awaited it holds 4."""
    desk = Desk(num_tokens=16_384)
    warm, cold = document(1, 320), document(2, 9600)

    async def reads_in_a_second(has_token: bool) -> int:
        async with desk.door.enter(warm, 8, "a question that nobody sends") as place:
            if has_token:
                place.first_token()
            await asyncio.sleep(0.3)
            before = len(desk.bridge.reads)
            await asyncio.sleep(1.0)
            return len(desk.bridge.reads) - before

    async def scene() -> None:
        await desk.ask(warm)
        warming = desk.door.warm(cold, "registered")
        assert await reads_in_a_second(has_token=False) in (4, 5)
        assert await reads_in_a_second(has_token=True) in (8, 9)
        desk.door.cancel(cold.id)
        await warming.wait()

    run(scene())


def test_what_was_just_warmed_is_warm_though_its_events_are_late() -> None:
    """A question in the very moment goes at once, and nothing is read for it."""
    desk = Desk(residency="late")
    cold = document(1, 1600)

    async def scene() -> None:
        await desk.door.warm(cold, "registered").wait()
        before = len(desk.bridge.reads)
        answer = await desk.ask(cold)
        assert (answer.waited_for, answer.cached_tokens) == (None, 1600)
        assert len(desk.bridge.reads) == before

    run(scene())


def test_room_goes_first_to_questions_on_what_is_in_use() -> None:
    """Two wait for room on warm documents, and it comes for one: the later one, whose document takes none."""
    desk = Desk(num_tokens=2048)
    used, leaving, resting = document(1, 512), document(2, 800), document(3, 400)

    async def scene() -> list[Answer]:
        for one in (used, leaving, resting):
            await desk.ask(one)
        return await gather(
            desk.ask(used, max_tokens=250),
            desk.ask(leaving, max_tokens=20),
            desk.ask(resting, at_s=0.005),
            desk.ask(used, number=1, at_s=0.01, num_tail=700),
        )

    _, _, resting_answer, used_answer = run(scene())
    assert used_answer.waited_for == "room"
    assert used_answer.placed_s < resting_answer.placed_s


def test_seconds_waited_count_for_a_long_document() -> None:
    """A short one that comes when the long one has waited for most of its own time is read after it."""
    desk = Desk(num_tokens=40_000)
    first, long, short, late = document(1, 3200), document(2, 4800), document(3, 1600), document(4, 1600)

    async def scene() -> list[Answer]:
        return await gather(
            desk.ask(first), desk.ask(long, at_s=0.1), desk.ask(short, at_s=1.0), desk.ask(late, at_s=4.6)
        )

    answers = {answer.prefix_id: answer.placed_s for answer in run(scene())}
    assert sorted(answers, key=answers.__getitem__) == [one.id for one in (first, short, long, late)]


ARRIVALS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "warm", "cancel"]),
        st.integers(0, 5),  # which document
        st.floats(0, 12),  # when
        st.one_of(st.none(), st.floats(0, 4)),  # goes away after so long
        st.integers(1, 12),  # tokens of the answer
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=120, deadline=None)
@given(arrivals=ARRIVALS, residency=st.sampled_from(["told", "late", "silent"]), fails=st.integers(0, 2))
def test_whoever_comes_goes_or_breaks_all_is_quiet_in_the_end(
    arrivals: list[tuple[str, int, float, float | None, int]], residency: str, fails: int
) -> None:
    """Disconnects and failures at any moment: nothing is hot, nothing waits, no task is left, all others are answered.

    And at each step of the engine no more is hot than the pool's share, unless one document is alone.
    """
    desk = Desk(num_tokens=2048, residency=residency)
    sizes = (40, 110, 200, 640, 1100, 1900)
    documents = [document(n, size) for n, size in enumerate(sizes)]
    failures = [EngineError("engine_failed", "It broke.")] * fails

    def check_room() -> None:
        if desk.door.snapshot().hot_tokens > SHARE * 2048:
            assert sum(one.is_hot for one in desk.door._documents) == 1

    desk.bridge.on_step = check_room

    async def one(what: str, which: int, at_s: float, patience_s: float | None, max_tokens: int, number: int) -> None:
        await asyncio.sleep(at_s)
        if number % 7 == 3 and failures:
            desk.bridge.failures.append(failures.pop())
        if what == "warm":
            desk.door.warm(documents[which], "registered")
        elif what == "cancel":
            desk.door.cancel(documents[which].id)
        else:
            async with asyncio.timeout(patience_s):
                await desk.ask(documents[which], number=number, max_tokens=max_tokens)

    async def scene() -> list[BaseException | None]:
        asked = [one(*arrival, number) for number, arrival in enumerate(arrivals)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        while any(document.warming for document in desk.door._documents):
            await asyncio.sleep(1)
            assert now() < 300, "a warming never ends"
        await asyncio.sleep(0)
        return results

    results = run(scene())
    errors = [error for error in results if error is not None]
    assert all(isinstance(error, TimeoutError | EngineError) for error in errors), errors
    assert not [error for error in errors if isinstance(error, EngineError) and error.code != "engine_failed"]
    desk.check_all_is_quiet()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 11), st.floats(0, 20)), min_size=2, max_size=40),
    st.integers(0, 3),
)
def test_each_document_that_is_waited_for_is_read_after_a_bounded_number_of_others(
    asked: list[tuple[int, float]], seed: int
) -> None:
    """However they come: those before it, and eight that came later."""
    desk = Desk(num_tokens=60_000)
    dice = random.Random(seed)
    documents = [document(n, dice.choice([320, 800, 4800])) for n in range(12)]
    finished: list[tuple[float, str]] = []

    async def ask(which: int, at_s: float, number: int) -> Answer:
        answer = await desk.ask(documents[which], at_s=at_s, number=number, max_tokens=1)
        if answer.waited_for == "read":
            finished.append((answer.placed_s, answer.prefix_id))
        return answer

    async def scene() -> list[Answer]:
        return await gather(*(ask(*one, number) for number, one in enumerate(asked)))

    answers = [one for one in run(scene()) if one.waited_for == "read"]
    for answer in answers:
        others = {name for at_s, name in finished if answer.arrived_s < at_s < answer.placed_s}
        later = {
            other.prefix_id
            for other in answers
            if other.prefix_id in others and other.arrived_s > answer.arrived_s and other.placed_s < answer.placed_s
        }
        assert len(later) <= PATIENCE
    desk.check_all_is_quiet()
