"""How long a batch is said to take, held against engines whose speed is known, on a clock that only they move."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from batch_kit import add_documents, assistant_of
from pace_kit import SteppedEngine, run, side_by_side

from app.assistant import Assistant
from app.batch.cost import Cost, cost_words
from app.batch.measure import measure
from app.batch.options import BatchOptions
from app.batch.question import BatchQuestion
from app.batch.run import cost
from app.batch.run import run as run_batch
from app.settings import Settings
from engine.base import Prompt
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer

Kind = Callable[[Tokenizer, Callable[[Prompt], str], int], FakeEngine]
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
