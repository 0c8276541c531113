"""An event loop whose time is what its timers say, and a system that answers on it: every figure is then exact."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.base import EngineError
from engine.bench.base import Arrivals, Document, OnArrival, Timing

T = TypeVar("T")


class _NoWaiting(selectors.SelectSelector):
    """Never waits: says how long it was to wait instead."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("nothing is left that could wake anybody")
        self.skipped_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at second 0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._selecting = _NoWaiting()
        super().__init__(self._selecting)

    def time(self) -> float:
        # Rounded, so that sums of timers are the figures that a test writes down.
        return round(self._selecting.skipped_s, 9)


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


@dataclass
class FakeSystem:
    """Reads so many new tokens a second, one question at a time; what it has read it knows for ever, in whole blocks.

    Attributes:
        stalls: Whether running answers stand still while a document is read.
        fails: The questions, counted from 0, that end in an error.
    """

    name: str = "fake"
    read_tokens_per_s: float = 1000.0
    token_s: float = 0.01
    host_s: float = 0.005
    block: int = 16
    stalls: bool = True
    fails: frozenset[int] = frozenset()
    reports_cached: bool = True
    asked: list[tuple[int, int, int]] = field(default_factory=list)  # (document's number, its tokens, output)
    began_at_s: list[float] = field(default_factory=list)
    num_running: int = 0
    num_ended: int = 0
    _known: set[int] = field(default_factory=set)
    _until_s: float = 0.0  # the reader is busy

    async def ask(
        self, document: Document, question_ids: tuple[int, ...], num_output: int, on_arrival: OnArrival | None = None
    ) -> Timing:
        loop = asyncio.get_running_loop()
        number = len(self.asked)
        self.asked.append((document.number, document.num_tokens, num_output))
        self.began_at_s.append(loop.time())
        arrivals = Arrivals(loop.time, on_arrival)
        self.num_running += 1
        try:
            await asyncio.sleep(self.host_s)
            if number in self.fails:
                raise EngineError("engine_failed", "It was told to fail.")
            cached = document.num_tokens // self.block * self.block if document.number in self._known else 0
            self._known.add(document.number)
            if not cached:
                self._until_s = max(self._until_s, loop.time()) + document.num_tokens / self.read_tokens_per_s
                await asyncio.sleep(self._until_s - loop.time())
            for _ in range(num_output):
                if self.stalls:
                    await asyncio.sleep(max(0.0, self._until_s - loop.time()))
                await asyncio.sleep(self.token_s)
                arrivals.note(1)
        finally:
            self.num_running -= 1
        self.num_ended += 1
        timing = arrivals.timing(
            prompt_tokens=document.num_tokens + len(question_ids),
            cached_tokens=cached if self.reports_cached else None,
            output_tokens=num_output,
        )
        assert timing is not None
        return timing

    async def pool_used(self) -> float | None:
        return self.num_running / 10

    async def close(self) -> None:
        pass
