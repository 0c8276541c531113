"""An event loop whose clock jumps to the next thing that is due: hours of waiting take no time, and always the same."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
MAX_S = 86_400.0


class _NoWaiting(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everybody waits and nothing will ever happen")
            self.now_s += timeout
            if self.now_s > MAX_S:
                raise AssertionError("a day has gone by and it is not at its end")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _NoWaiting()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now_s


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end on a loop of its own.

    Raises:
        AssertionError: Everybody waits for somebody, or a task is left over.
    """
    loop = VirtualLoop()
    try:
        result = loop.run_until_complete(main)
        # What was aborted may have a step to end.
        for _ in range(100):
            if asyncio.all_tasks(loop):
                loop.run_until_complete(asyncio.sleep(0.1))
        left = [task.get_name() for task in asyncio.all_tasks(loop)]
        assert left == []
        return result
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
