"""Decides how a batch is ended before its end: what runs is finished, nothing more is begun."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app import terminal
from app.problem import Problem


class Stop:
    """Ends a batch before its end: running answers are finished, nothing more is begun.

    Attributes:
        problem: Why, once it was asked for.
        is_heard: Whether the batch has come so far that it ends on being asked.
    """

    def __init__(self) -> None:
        self.problem: Problem | None = None
        self.is_heard = False
        self.wake: Callable[[], None] = lambda: None

    def is_asked_for(self) -> bool:
        return self.problem is not None

    def ask_for(self, problem: Problem) -> None:
        self.problem = self.problem or problem
        self.wake()


@contextmanager
def interruptible(stop: Stop) -> Iterator[None]:
    """The first Ctrl-C lets the running answers finish; a second one, or one before any runs, ends all at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def interrupt() -> None:
        if stop.is_heard and not stop.is_asked_for():
            terminal.say("Finishing the answers that run; Ctrl-C once more ends them.")
            stop.ask_for(Problem("interrupted", "Stopped as asked."))
        else:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
