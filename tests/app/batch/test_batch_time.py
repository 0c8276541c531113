"""How long a batch is said to take, held against engines whose speed is known, on a clock that only they move."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_kit import add_documents, assistant_of
from pace_kit import ANSWER_S, PROMPT_TOKEN_S, STEP_S, SteppedEngine, run, side_by_side

from app.assistant import Assistant
from app.batch.cost import Cost, cost_words
from app.batch.options import BatchOptions
from app.batch.question import BatchQuestion
from app.batch.run import cost
from app.batch.run import run as run_batch
from app.batch.timing.clock import MEASURED
from app.batch.timing.learnt import load_rates, load_seen
from app.batch.timing.measure import measure
from app.settings import Settings
from engine.base import Prefix, Prompt
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer
from engine.view import CacheView, PrefixView

Kind = Callable[[Tokenizer, Callable[[Prompt], str], int], FakeEngine]
_UNKNOWN = "how long that takes on this engine is known after the first batch on it."
KINDS: dict[str, Kind] = {"stepped": SteppedEngine, "side by side": side_by_side}


def says(prompt: Prompt) -> str:
    """Between 3 and 62 letters, a token each: what the question's ids make it."""
    return "Seven grey geese walk along the wall and none of them stands still."[
        : 3 + zlib.crc32(repr(prompt.tail_ids).encode()) % 60
    ]


def asked(numbers: range, documents: list[int]) -> list[BatchQuestion]:
    return [
        BatchQuestion(row, f"q{row}", f"How many steps, {number}?", f"wall-{documents[row % len(documents)]:02}.md")
        for row, number in enumerate(numbers)
    ]


SHAPES: dict[str, tuple[list[BatchQuestion], BatchOptions]] = {
    "8 on one document": (asked(range(8), [0]), BatchOptions()),
    "30 on five": (asked(range(100, 130), [1, 2, 3, 4, 5]), BatchOptions()),
    "8 warm ones": (asked(range(200, 208), [0]), BatchOptions()),
    "40, eight at once": (asked(range(300, 340), [1, 6]), BatchOptions(at_once=8)),
    "12 one by one": (asked(range(400, 412), [2, 7]), BatchOptions(at_once=1)),
    "20 on five in waves": (asked(range(500, 520), [8, 9, 10, 11, 0]), BatchOptions(wave=3)),
}


@pytest.fixture
def settings() -> Settings:
    return Settings.load(answer_tokens=40)


async def said_and_took(
    assistant: Assistant, questions: list[BatchQuestion], options: BatchOptions
) -> tuple[Cost, float]:
    await measure(assistant, options)
    said = await cost(assistant, questions, options)
    result = await run_batch(assistant, questions, options)
    assert result.progress.num_failed == 0
    assert (result.progress.num_reads, result.progress.read_tokens) == (said.reads, said.read_tokens)
    return said, result.progress.elapsed_s


@pytest.mark.parametrize("kind", KINDS)
def test_a_time_is_right_within_three_tenths_whatever_the_batch(
    kind: str, settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """From the second batch on, whatever shape the one before had; the first says what it takes at most."""
    engine = KINDS[kind](tokenizer, says, 20)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 12)

    async def all_of_them() -> dict[str, tuple[Cost, float]]:
        told = {name: await said_and_took(assistant, *shape) for name, shape in SHAPES.items()}
        await assistant.close()
        return told

    told = run(all_of_them())
    for name, (said, took) in told.items():
        print(f"{kind}, {name}: {cost_words(said).split(';')[-1].strip()} ({said.seconds:.1f} s); took {took:.1f} s")
    (at_most, first_took), *later = told.values()
    assert at_most.seconds is not None
    assert 0.9 * first_took < at_most.seconds < 3 * first_took
    assert "at most" in cost_words(at_most)
    assert all(said.seconds == pytest.approx(took, rel=0.3) for said, took in later)


@pytest.fixture
def stepped(settings: Settings, tokenizer: Tokenizer, tmp_path: Path) -> tuple[SteppedEngine, Assistant]:
    """With three documents there."""
    engine = SteppedEngine(tokenizer, says, 6)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 3)
    return engine, assistant


def test_a_machine_that_is_less_busy_than_it_was_is_believed(
    stepped: tuple[SteppedEngine, Assistant], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch an hour before ran at a third of the speed; the next dry run is right all the same."""
    engine, assistant = stepped
    passed_s = 0.0
    monkeypatch.setattr(time, "time", lambda: 1e9 + passed_s)

    async def slow_then_quick() -> tuple[Cost, float]:
        nonlocal passed_s
        engine.slower = 3.0
        await run_batch(assistant, asked(range(8), [0, 1]))
        engine.slower = 1.0
        passed_s = 3_600.0
        told = await said_and_took(assistant, asked(range(20, 28), [2]), BatchOptions())
        await assistant.close()
        return told

    said, took = run(slow_then_quick())
    assert said.seconds == pytest.approx(took, rel=0.3)


def test_what_an_engine_is_measured_with_is_let_go(stepped: tuple[SteppedEngine, Assistant]) -> None:
    """It asks about no document, and nothing of it is held afterwards."""
    engine, assistant = stepped

    async def measured() -> None:
        await measure(assistant, BatchOptions(at_once=3))
        await assistant.close()

    run(measured())
    assert {call.prompt.prefix.namespace for call in engine.calls} == {"measured"}
    assert engine.handles == ()
    seen = load_seen(assistant.settings)
    assert {one.kind for one in seen.answers} == {MEASURED}
    assert {round(one.width) for one in seen.answers} >= {1, 3}
    assert seen.reads[0].tokens == 512


def test_what_an_engine_is_measured_with_is_as_long_as_a_section_and_goes_by_itself(
    stepped: tuple[SteppedEngine, Assistant], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed meanwhile lets nothing go: each of them has a time to live."""
    _, assistant = stepped
    plain, lives = SteppedEngine.cache_prefix, []

    async def noted(self: SteppedEngine, prefix: Prefix, **life: Any) -> Any:
        lives.append(life)
        return await plain(self, prefix, **life)

    monkeypatch.setattr(SteppedEngine, "cache_prefix", noted)

    async def measured() -> None:
        await measure(assistant, BatchOptions())
        await assistant.close()

    run(measured())
    assert lives == [{"ttl_s": 120.0}] * len(lives) != []
    assert max(one.tokens for one in load_seen(assistant.settings).reads) == assistant.settings.section_budget


def test_an_engine_that_is_full_or_does_not_tell_is_not_measured(
    stepped: tuple[SteppedEngine, Assistant], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No document goes for it; without a batch before, no time is said."""
    engine, assistant = stepped
    full = CacheView(5_000, 32, "fake-1", 4_800, prefixes=(PrefixView("a", "kb", "a", 4_800, 4_800, "warm"),))

    async def words(view: CacheView | None) -> str:
        monkeypatch.setattr(assistant.power, "cache", lambda: view)
        await measure(assistant, BatchOptions())
        return cost_words(await cost(assistant, asked(range(4), [0])))

    async def both() -> list[str]:
        said = [await words(full), await words(None)]
        await assistant.close()
        return said

    said = run(both())
    assert [one.split("; ")[-1] for one in said] == [_UNKNOWN] * 2
    assert engine.calls == []


def test_an_engine_that_is_too_busy_to_be_measured_is_left_alone(stepped: tuple[SteppedEngine, Assistant]) -> None:
    """After twenty seconds; the dry run goes on, and nothing is left running."""
    engine, assistant = stepped
    engine.slower = 1_000.0

    async def measured() -> float:
        begun_s = asyncio.get_running_loop().time()
        await measure(assistant, BatchOptions())
        passed_s = asyncio.get_running_loop().time() - begun_s
        await assistant.close()
        return passed_s

    assert run(measured()) == pytest.approx(20.0)
    assert engine.num_running == 0
    assert load_rates(assistant.settings) is None


def test_a_busy_engine_tells_as_far_as_it_came(stepped: tuple[SteppedEngine, Assistant]) -> None:
    """Twenty times as slow, it has no time for all that it is asked: its steps are known all the same."""
    engine, assistant = stepped
    engine.slower = 20.0

    async def measured() -> None:
        await measure(assistant, BatchOptions(at_once=4))
        await assistant.close()

    run(measured())
    rates = load_rates(assistant.settings, 4)
    assert rates is not None
    assert all(one.tokens < 16 for one in load_seen(assistant.settings).answers)
    assert rates.step_of(4) == pytest.approx(20 * (STEP_S + 4 * ANSWER_S), rel=0.05)
    assert rates.reading_s(512) == pytest.approx(20 * (STEP_S + 512 * PROMPT_TOKEN_S), rel=0.15)
