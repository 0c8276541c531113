"""Decides how a batch is ended before its end: what runs is finished, nothing more is begun."""

from __future__ import annotations

from collections.abc import Callable

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
