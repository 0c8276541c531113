"""Decides what a batch's time went into: how long each read and each answer took, and what ran beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# The kind of answers that were asked for to measure the engine: nobody reads them, and their length says nothing.
MEASURED = "measured"


@dataclass(frozen=True)
class ReadSeen:
    """One read.

    Attributes:
        at_s: When it ended, in Unix seconds.
        tokens: That were computed.
        alone_s, beside_s: How long it took while no answer ran, and while some did.
    """

    at_s: float
    tokens: int
    alone_s: float
    beside_s: float

    @property
    def seconds(self) -> float:
        return self.alone_s + self.beside_s


@dataclass(frozen=True)
class AnswerSeen:
    """One answer.

    Attributes:
        at_s: When it ended, in Unix seconds.
        tokens: Of the answer; `is_cut` where it ended because no more were allowed.
        question_tokens: Computed for its question.
        kind: What asked for it, as `kind_of` tells: answers of one kind are about as long.
        spoken_tokens: That came behind its first piece, in `speaking_s`; `other_s` is the rest of its time.
        width: How many answers ran meanwhile, itself among them, on average.
        beside: The share of its time in which something was read, 0 to 1.
    """

    at_s: float
    tokens: int
    is_cut: bool
    question_tokens: int
    kind: str
    spoken_tokens: int
    speaking_s: float
    other_s: float
    width: float
    beside: float

    @property
    def seconds(self) -> float:
        return self.speaking_s + self.other_s


@dataclass(frozen=True)
class Seen:
    """What was seen of an engine, the oldest first."""

    reads: tuple[ReadSeen, ...] = ()
    answers: tuple[AnswerSeen, ...] = ()


class Clock:
    """Watches one batch.

    Args:
        now: Seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since_s = now()
        self._num_reading = self._num_running = 0
        # Seconds so far in which something was read, an answer ran, and answers together were running.
        self._read_s = self._run_s = self._width_s = 0.0
        self._reads: list[ReadSeen] = []
        self._answers: list[AnswerSeen] = []

    @property
    def seen(self) -> Seen:
        return Seen(tuple(self._reads), tuple(self._answers))

    @contextmanager
    def reading(self) -> Iterator[ReadWatch]:
        """Something is read meanwhile."""
        self._pass()
        self._num_reading += 1
        watch = ReadWatch(self)
        try:
            yield watch
        finally:
            self._pass()
            self._num_reading -= 1
            watch.end()

    @contextmanager
    def running(self) -> Iterator[AnswerWatch]:
        """One answer more runs meanwhile."""
        self._pass()
        self._num_running += 1
        watch = AnswerWatch(self)
        try:
            yield watch
        finally:
            self._pass()
            self._num_running -= 1
            watch.end()

    def moment(self) -> Moment:
        self._pass()
        return Moment(self._since_s, self._read_s, self._run_s, self._width_s)

    def has_read(self, watch: ReadWatch, num_tokens: int) -> None:
        """So much was computed; a read that is not told of is not kept."""
        seconds = watch.seconds
        beside_s = min(watch.ended.run_s - watch.begun.run_s, seconds)
        self._reads.append(ReadSeen(time.time(), num_tokens, seconds - beside_s, beside_s))

    def has_answered(self, watch: AnswerWatch, *, tokens: int, is_cut: bool, question_tokens: int, kind: str) -> None:
        """So came an answer; one that failed is not told of."""
        begun, ended, seconds = watch.begun, watch.ended, watch.seconds
        if seconds <= 0 or watch.first_s is None:
            return
        speaking_s = watch.last_s - watch.first_s
        self._answers.append(
            AnswerSeen(
                time.time(),
                tokens,
                is_cut,
                question_tokens,
                kind,
                max(watch.num_tokens - watch.num_first, 0),
                speaking_s,
                seconds - speaking_s,
                (ended.width_s - begun.width_s) / seconds,
                (ended.read_s - begun.read_s) / seconds,
            )
        )

    def _pass(self) -> None:
        now_s = self._now()
        passed_s = now_s - self._since_s
        self._read_s += passed_s * (self._num_reading > 0)
        self._run_s += passed_s * (self._num_running > 0)
        self._width_s += passed_s * self._num_running
        self._since_s = now_s


@dataclass(frozen=True)
class Moment:
    """How much of each had passed by then, in seconds."""

    now_s: float
    read_s: float
    run_s: float
    width_s: float


class ReadWatch:
    """Of one read, from `begun` to `ended`; until then the two are one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begun = self.ended = clock.moment()

    @property
    def seconds(self) -> float:
        return self.ended.now_s - self.begun.now_s

    def end(self) -> None:
        self.ended = self._clock.moment()


class AnswerWatch(ReadWatch):
    """Of one answer; `first_s` is None before its first piece, which has `num_first` of its `num_tokens`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.first_s: float | None = None
        self.last_s = 0.0
        self.num_first = self.num_tokens = 0

    def came(self, num_tokens: int) -> None:
        """So many tokens of it; with none the engine only says that it lives."""
        if not num_tokens:
            return
        self.last_s = self._clock.moment().now_s
        self.num_tokens += num_tokens
        if self.first_s is None:
            self.first_s, self.num_first = self.last_s, num_tokens
