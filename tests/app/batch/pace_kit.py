"""What the tests of a batch's time bring along: engines whose speed is known, on a clock that only they move."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from batch_kit import BLOCK, DOCUMENT_TOKENS

from engine.base import Prompt
from engine.blocks import Run
from engine.fake import Delays, FakeEngine
from engine.tokenizer import Tokenizer

T = TypeVar("T")

# What one step of a stepped engine takes: by itself, for each prompt token, and for each answer in it.
STEP_S, PROMPT_TOKEN_S, ANSWER_S = 0.02, 0.0008, 0.01
CHUNK = 512


class _Selector(selectors.SelectSelector):
    """Skips the waiting, but for what threads are at work on: their time is not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.num_at_work: Callable[[], int] = lambda: 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.num_at_work():
            return super().select(None if timeout is None or timeout > 0 else 0)
        if timeout is None:  # only a thread can wake anybody
            return super().select(None)
        if not (ready := super().select(0)):
            self.now_s += max(timeout, 0.0)
        return ready


class EngineLoop(asyncio.SelectorEventLoop):
    """An event loop on which time passes in sleeps alone."""

    def __init__(self) -> None:
        self._selector_of_time = _Selector()
        super().__init__(self._selector_of_time)
        self._num_at_work = 0
        self._selector_of_time.num_at_work = lambda: self._num_at_work

    def time(self) -> float:
        return self._selector_of_time.now_s

    def run_in_executor(self, executor: Any, work: Any, *args: Any) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, work, *args)
        self._num_at_work += 1
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: asyncio.Future[Any] | Future[Any]) -> None:
        self._num_at_work -= 1


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=EngineLoop) as runner:
        return runner.run(work)


class SteppedEngine(FakeEngine):
    """Computes all that is under way in steps, one after the other, as vLLM does: what is read makes answers wait."""

    def __init__(self, tokenizer: Tokenizer, answers: Callable[[Prompt], str], num_documents: int) -> None:
        super().__init__(
            tokenizer,
            answers,
            max_model_len=6_000,
            num_blocks=num_documents * DOCUMENT_TOKENS // BLOCK + 1,
            max_num_batched_tokens=CHUNK,
        )
        self.slower = 1.0
        self._wanted: list[tuple[int, asyncio.Future[None]]] = []
        self._stepping: asyncio.Task[None] | None = None

    async def _compute(self, run: Run, num_tokens: int | None = None) -> None:
        before = run.num_computed
        await super()._compute(run, num_tokens)
        ended = asyncio.get_running_loop().create_future()
        self._wanted.append((run.num_computed - before, ended))
        if self._stepping is None:
            self._stepping = asyncio.create_task(self._step())
        await ended

    async def _step(self) -> None:
        await asyncio.sleep(0)
        while self._wanted:
            taken, self._wanted = self._wanted, []
            computed = sum(number for number, _ in taken if number > 1)
            answers = sum(number == 1 for number, _ in taken)
            await asyncio.sleep((STEP_S + computed * PROMPT_TOKEN_S + answers * ANSWER_S) * self.slower)
            for _, ended in taken:
                if not ended.done():
                    ended.set_result(None)
            await asyncio.sleep(1e-6)  # whoever goes on is in the next step
        self._stepping = None


def side_by_side(tokenizer: Tokenizer, answers: Callable[[Prompt], str], num_documents: int) -> FakeEngine:
    """One that has room to spare: reads and answers never slow each other."""
    return FakeEngine(
        tokenizer,
        answers,
        max_model_len=6_000,
        num_blocks=num_documents * DOCUMENT_TOKENS // BLOCK + 1,
        delays=Delays(0.0008, 0.03),
    )
