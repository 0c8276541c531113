"""What a batch does when its engine fails, goes, or comes back: rows are asked again, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from batch_kit import TellingPower, add_documents, questions_of, says

from app.assistant import Assistant
from app.batch.options import BatchOptions
from app.batch.run import BatchResult, run
from app.settings import Settings
from engine.base import Delta, Engine, EngineError, Finish, Prompt, Sampling
from engine.fake import Delays, FakeEngine
from engine.tokenizer import Tokenizer
from ingest.corpus import Corpus

ANSWER_TOKENS = 16
GONE = EngineError("engine_unreachable", "The engine is gone.")
HURT = EngineError("engine_failed", "The engine failed.")


@pytest.fixture
def settings() -> Settings:
    return Settings.load(answer_tokens=ANSWER_TOKENS)


class Failing(FakeEngine):
    """Raises what `fails` says for the question with this number, after its first word."""

    fails: Callable[[int], EngineError | None] = staticmethod(lambda number: None)
    num_asked = 0

    async def generate(self, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:  # type: ignore[override]
        self.num_asked += 1
        error = self.fails(self.num_asked)
        async for piece in super().generate(prompt, sampling):
            yield piece
            if error is not None:
                raise error


class Restarting(TellingPower):
    """Hands out another engine with each lease; `None` is one that can't be had."""

    def __init__(self, engines: list[FakeEngine | None], tokenizer: Tokenizer) -> None:
        assert engines[0] is not None
        super().__init__(engines[0], tokenizer)
        self._engines = engines

    async def connect(self, report: Callable[[str], None]) -> tuple[Engine, Tokenizer]:
        engine = self._engines[min(self.num_connects, len(self._engines) - 1)]
        self.num_connects += 1
        if engine is None:
            raise GONE
        self.engine = engine
        return engine, self.tokenizer


def failing(tokenizer: Tokenizer, fails: Callable[[int], EngineError | None] = lambda number: None) -> Failing:
    engine = Failing(tokenizer, says, max_model_len=6_000, num_blocks=600)
    engine.fails = fails
    return engine


async def ran(
    settings: Settings, tokenizer: Tokenizer, folder: Path, engines: list[FakeEngine | None], options: BatchOptions
) -> tuple[BatchResult, Restarting]:
    power = Restarting(engines, tokenizer)
    assistant = Assistant(settings, Corpus.open(settings.home, settings.ingest), power)  # type: ignore[arg-type]
    add_documents(assistant, folder, 3)
    result = await run(assistant, questions_of(3, 6), options)
    await assistant.close()
    return result, power


async def test_an_engine_that_is_gone_is_had_again_once_for_all_rows(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Every answer that ran breaks; one new lease serves them all, and no row is lost."""
    first = failing(tokenizer, lambda number: GONE if number >= 7 else None)
    options = BatchOptions(at_once=3, backoff_s=0.001)
    result, power = await ran(settings, tokenizer, tmp_path, [first, None, failing(tokenizer)], options)
    assert [answer.error for answer in result.answers] == [None] * 18
    assert (power.num_connects, result.num_restarts) == (3, 1)
    assert 1 <= result.progress.num_retries <= 4


async def test_an_engine_that_never_comes_back_stops_the_batch_with_what_is_there(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """The rows that were not asked have no error: they can be gone on with."""
    first = failing(tokenizer, lambda number: GONE if number >= 7 else None)
    options = BatchOptions(at_once=1, backoff_s=0.001, retries=3)
    result, power = await ran(settings, tokenizer, tmp_path, [first, None], options)
    assert result.stopped is not None
    assert (result.stopped.code, len(result.answers), result.progress.num_failed) == ("engine_unreachable", 6, 0)
    assert power.num_connects == 4


async def test_a_failure_of_the_engine_is_tried_again_and_then_the_rows_own(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """The second try mends one row; what fails as often as is allowed is told of that row alone, on the same lease."""
    engine = failing(tokenizer, lambda number: HURT if number in {2, 5, 6, 7} else None)
    options = BatchOptions(at_once=1, backoff_s=0.001, retries=2)
    result, power = await ran(settings, tokenizer, tmp_path, [engine], options)
    codes = [answer.error.code for answer in result.answers if answer.error]
    assert (codes, result.progress.num_retries, power.num_connects) == (["engine_failed"], 3, 1)


async def test_what_is_the_questions_own_fault_is_not_tried_again(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Asked once, told once."""
    refused = EngineError("bad_request", "The engine refuses it.")
    engine = failing(tokenizer, lambda number: refused if number == 2 else None)
    result, _ = await ran(settings, tokenizer, tmp_path, [engine], BatchOptions(at_once=1, backoff_s=0.001))
    codes = [answer.error.code for answer in result.answers if answer.error]
    assert (codes, result.progress.num_retries, engine.num_asked) == (["bad_request"], 0, 18)


async def test_an_answer_that_takes_too_long_is_ended_and_the_next_one_begins(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """The request is aborted in the engine, and nothing runs on."""
    slow = FakeEngine(tokenizer, says, max_model_len=6_000, num_blocks=600, delays=Delays(answer_token_s=60.0))
    options = BatchOptions(at_once=3, timeout_s=0.02)
    result, _ = await asyncio.wait_for(ran(settings, tokenizer, tmp_path, [slow], options), 60)
    assert {answer.error.code for answer in result.answers if answer.error} == {"timed_out"}
    assert (result.progress.num_failed, slow.num_running) == (18, 0)
    assert {call.reason for call in slow.calls if call.sampling.max_tokens == ANSWER_TOKENS} == {"abort"}
