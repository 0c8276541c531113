"""Decides when each answer of a plan is expected: the batch is played through at the engine's speed, as it is run.

One prefix after the other is read, the next one while few questions wait; so many answers run at once. While something
is read answers go on more slowly, and the read takes longer for them.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from app.batch.timing.lengths import Lengths
from app.batch.timing.rates import Rates

# Of an estimate that nothing stands behind.
_LARGEST_ERROR = 0.6


@dataclass(frozen=True)
class Asking:
    """A group of a plan.

    Attributes:
        read_tokens: That are read for it; 0 where it is held already.
        lengths: Tokens of each answer.
    """

    read_tokens: int
    lengths: tuple[float, ...]


def expected(
    rates: Rates, groups: Sequence[Asking], at_once: int, question_tokens: float, wave: int = 1
) -> list[float]:
    """Seconds until each answer, in the order of the plan.

    Args:
        question_tokens: Computed for all questions together.
        wave: So many reads come before the questions on them.
    """
    num_questions = sum(len(group.lengths) for group in groups)
    return _Playing(rates, at_once, question_tokens / max(num_questions, 1), wave).play(groups)


def asking(reads: Sequence[int], sizes: Sequence[int], lengths: Lengths) -> list[Asking]:
    """The groups, by the tokens that are read for each and its number of questions, with answers of such lengths."""
    all_lengths = iter(lengths.of(sum(sizes)))
    return [Asking(tokens, tuple(islice(all_lengths, size))) for tokens, size in zip(reads, sizes, strict=True)]


def span_of(rates: Rates, groups: Sequence[Asking], lengths: Lengths, seconds: float) -> tuple[float, float]:
    """Between which seconds a batch that is expected to take `seconds` ends, as a rule."""
    count = sum(len(group.lengths) for group in groups)
    if not count or seconds <= 0:
        return 0.0, 0.0
    reading = min(sum(rates.reading_s(group.read_tokens) for group in groups) / seconds, 1.0)
    answer_error = math.hypot(rates.answer_error, lengths.error(count))
    error = min(math.hypot(reading * rates.read_error, (1 - reading) * answer_error), _LARGEST_ERROR)
    # As long as an answer may be says nothing of how short it may be.
    least = 1.0 if lengths.seen else reading
    return (1 - error) * least * seconds, (1 + error) * seconds


class _Playing:
    """Answers are counted in steps of one token: all that run go on by as many, so that the shortest ends first."""

    def __init__(self, rates: Rates, at_once: int, question_tokens: float, wave: int) -> None:
        self._rates = rates
        self._at_once = at_once
        self._question_tokens = question_tokens
        self._wave = wave
        self._now_s = self._steps = 0.0
        self._running: list[tuple[float, int]] = []  # (steps at its end, its place in the plan)
        self._waiting: deque[tuple[int, float]] = deque()
        self._ends_s: list[float] = []

    def play(self, groups: Sequence[Asking]) -> list[float]:
        self._ends_s = [0.0] * sum(len(group.lengths) for group in groups)
        together: list[tuple[int, float]] = []
        place = num_read = 0
        for group in groups:
            while len(self._waiting) >= self._at_once:
                self._go_on(math.inf)
            if group.read_tokens:
                self._read(group.read_tokens)
                num_read += 1
            together += enumerate(group.lengths, place)
            place += len(group.lengths)
            if num_read >= self._wave or not num_read:
                self._begin(together)
                together, num_read = [], 0
        self._begin(together)
        while self._running:
            self._go_on(math.inf)
        return self._ends_s

    def _begin(self, asked: Sequence[tuple[int, float]]) -> None:
        self._waiting.extend(asked)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            place, length = self._waiting.popleft()
            step_s = self._rates.step_of(self._at_once)
            starting = self._rates.starting_s(self._at_once, self._question_tokens) / step_s
            heapq.heappush(self._running, (self._steps + starting + length - 1, place))

    def _read(self, num_tokens: int) -> None:
        left_s = self._rates.reading_s(num_tokens)
        while left_s > 1e-9 and self._running:
            passed_s = self._go_on(left_s / self._rates.reading_share, self._rates.answering_share)
            left_s -= passed_s * self._rates.reading_share
        self._now_s += max(left_s, 0.0)

    def _go_on(self, most_s: float, share: float = 1.0) -> float:
        """Until the next answer ends, `most_s` seconds at most; gives how many passed."""
        end, place = self._running[0]
        step_s = self._rates.step_of(len(self._running)) / share
        passed_s = (end - self._steps) * step_s
        if passed_s > most_s:
            self._steps += most_s / step_s
            self._now_s += most_s
            return most_s
        heapq.heappop(self._running)
        self._steps = end
        self._now_s += passed_s
        self._ends_s[place] = self._now_s
        self._fill()
        return passed_s
