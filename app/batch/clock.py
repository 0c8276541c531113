"""Decides what a batch's time went into: reading, or answering so many at once; and how many tokens came meanwhile."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Answering:
    """Time in which nothing was read and one number of answers ran, and the tokens of answers that came in it."""

    seconds: float
    tokens: float


@dataclass(frozen=True)
class Work:
    """What an engine did for a batch, or for several.

    Attributes:
        read_tokens: Computed by reads; `read_s` is the time in which one ran, `beside_tokens` came of answers then.
        answering: By how many answers ran.
        answers, output_tokens: Those that were given; `question_tokens` were computed for them.
    """

    read_tokens: float = 0.0
    read_s: float = 0.0
    beside_tokens: float = 0.0
    answering: Mapping[int, Answering] = field(default_factory=dict)
    answers: float = 0.0
    output_tokens: float = 0.0
    question_tokens: float = 0.0

    @property
    def seconds(self) -> float:
        return self.read_s + sum(one.seconds for one in self.answering.values())


class Clock:
    """Watches one batch.

    Args:
        now: Seconds.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._since_s = now()
        self._num_reading = self._num_running = 0
        self._read_s = self._read_tokens = self._beside_tokens = 0.0
        self._seconds: dict[int, float] = defaultdict(float)
        self._tokens: dict[int, float] = defaultdict(float)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Something is read meanwhile."""
        self._pass()
        self._num_reading += 1
        try:
            yield
        finally:
            self._pass()
            self._num_reading -= 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """One answer more runs meanwhile."""
        self._pass()
        self._num_running += 1
        try:
            yield
        finally:
            self._pass()
            self._num_running -= 1

    def has_read(self, num_tokens: int) -> None:
        self._read_tokens += num_tokens

    def came(self, num_tokens: int) -> None:
        """So many tokens of an answer."""
        if self._num_reading:
            self._beside_tokens += num_tokens
        else:
            self._tokens[self._num_running] += num_tokens

    def work(self, *, answers: int, output_tokens: int, question_tokens: int) -> Work:
        """All so far."""
        self._pass()
        answering = {number: Answering(self._seconds[number], self._tokens[number]) for number in sorted(self._seconds)}
        return Work(
            self._read_tokens, self._read_s, self._beside_tokens, answering, answers, output_tokens, question_tokens
        )

    def _pass(self) -> None:
        now_s = self._now()
        if self._num_reading:
            self._read_s += now_s - self._since_s
        elif self._num_running:
            self._seconds[self._num_running] += now_s - self._since_s
        self._since_s = now_s
