"""Decides what each scenario gives: its figures, their units, and how medians, percentiles and rates are taken.

Milliseconds are rounded to a tenth: what is below is noise. A figure that the server did not report is None.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from engine.bench.base import Timing

Start = Literal["cold", "warm"]


@dataclass(frozen=True)
class Warm:
    """A document read cold, then asked again.

    Attributes:
        document_tokens: Its length.
        cold_ms, warm_ms: To the first token: of the first question, and the median of the later ones.
        prompt_tokens, cached_tokens: Of the last question.
    """

    scenario: ClassVar[str] = "warm"
    document_tokens: int
    cold_ms: float
    warm_ms: float
    prompt_tokens: int
    cached_tokens: int | None

    @property
    def case(self) -> str:
        return f"{self.document_tokens:,} tokens"


@dataclass(frozen=True)
class Burst:
    """Many questions at once on one warm document.

    Attributes:
        tokens_per_s: Tokens of all answers, from the first request to the last token.
        first_ms, first_p95_ms: To the first token, median and 95th percentile.
        tokens_per_event: How many tokens an event of a stream brought on average.
        client_cpu_share: Of one core, used by the measuring process itself; near 1 it is the bottleneck.
    """

    scenario: ClassVar[str] = "burst"
    questions: int
    document_tokens: int
    tokens_per_s: float
    first_ms: float
    first_p95_ms: float
    wall_s: float
    output_tokens: int
    tokens_per_event: float
    client_cpu_share: float

    @property
    def case(self) -> str:
        return f"{self.questions} at once, {self.document_tokens:,} tokens"


@dataclass(frozen=True)
class Gap:
    """Answers that run while a cold document is read in.

    Attributes:
        gap_p50_ms, gap_p99_ms, gap_max_ms: Between two events of an answer, for every gap that lies at least partly
            in the time from the cold document's request to its first token.
        warm_first_ms: A warm question's first token, asked shortly after the cold document.
        warm_p50_ms: The median of all warm questions, asked one after the other until the cold one was read.
        warm_worst_ms: The slowest of them.
        cold_s, cold_alone_s: To the first token of a cold document of this length, beside the answers and alone.
    """

    scenario: ClassVar[str] = "gap"
    answers: int
    cold_tokens: int
    gap_p50_ms: float
    gap_p99_ms: float
    gap_max_ms: float
    num_gaps: int
    warm_first_ms: float | None
    warm_p50_ms: float | None
    warm_worst_ms: float | None
    warm_questions: int
    cold_s: float
    cold_alone_s: float
    cold_ratio: float
    tokens_per_event: float | None
    client_cpu_share: float

    @property
    def case(self) -> str:
        return f"{self.answers} running, {self.cold_tokens:,} tokens read in"


@dataclass(frozen=True)
class Trace:
    """Questions about several documents in Zipf's proportions, so many at a time.

    Attributes:
        start: `cold`: no document was read before; `warm`: the same questions' documents once more, all were read.
        hit_rate: Cached tokens of all prompt tokens, 0 to 1.
    """

    scenario: ClassVar[str] = "trace"
    start: Start
    documents: int
    document_tokens: int
    at_once: int
    questions: int
    questions_per_s: float
    hit_rate: float | None
    first_ms: float
    first_p95_ms: float
    wall_s: float
    client_cpu_share: float

    @property
    def case(self) -> str:
        return f"{self.documents} documents of {self.document_tokens:,} tokens, {self.start} start"


@dataclass(frozen=True)
class Replay:
    """Recorded traffic, each request at its own time.

    Attributes:
        left_out: Requests of the trace that the engine's context is too short for.
        hit_rate, best_hit_rate: Cached tokens of all prompt tokens; what a cache without end could give.
        recorded_s, wall_s: From the first request to the last one's arrival, and to the end of all answers.
    """

    scenario: ClassVar[str] = "replay"
    requests: int
    left_out: int
    mean_prompt_tokens: float
    hit_rate: float | None
    best_hit_rate: float
    first_ms: float
    first_p95_ms: float
    requests_per_s: float
    recorded_s: float
    wall_s: float
    client_cpu_share: float

    @property
    def case(self) -> str:
        return f"{self.requests} requests in {self.recorded_s:,.0f} s"


@dataclass(frozen=True)
class Batch:
    """A row of the table of batches.

    Attributes:
        mean_prompt_tokens: Document and question.
        pool_used: The largest share of the cache that running requests held, 0 to 1.
        success_rate: Questions that got their whole answer, of all.
    """

    scenario: ClassVar[str] = "batch"
    questions: int
    mean_prompt_tokens: float
    tokens_per_s: float
    pool_used: float | None
    success_rate: float
    hit_rate: float | None
    client_cpu_share: float

    @property
    def case(self) -> str:
        return f"{self.questions} at once"


@dataclass(frozen=True)
class File:
    """A file of questions: in a planned order, or as it stands.

    Attributes:
        start: `cold`: nothing was read before; `warm`: everything was.
        order: `planned`: document by document, the next one read while the last answers run; `file`: in turn.
        wave: Documents that a plan has read before the questions on any of them are asked; None without a plan.
        hit_rate: Cached tokens of all prompt tokens, those that only read a document among them.
        pool_used: The largest share of the cache that running requests held, 0 to 1.
        success_rate: Questions that got their whole answer, of all.
    """

    scenario: ClassVar[str] = "file"
    start: Start
    order: Literal["planned", "file"]
    wave: int | None
    documents: int
    document_tokens: int
    at_once: int
    questions: int
    output_tokens: int
    questions_per_s: float
    tokens_per_s: float
    mean_prompt_tokens: float
    hit_rate: float | None
    pool_used: float | None
    success_rate: float
    wall_s: float
    client_cpu_share: float

    @property
    def case(self) -> str:
        documents = f"{self.documents} document{'s' * (self.documents != 1)}"
        return f"{self.questions} questions, {documents} of {self.document_tokens:,} tokens, {self.start} start"


Result = Warm | Burst | Gap | Trace | Replay | Batch | File


class Stopwatch:
    """Seconds since it was made, on the event loop's clock and of this process's CPU time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_s, self._began_cpu_s = self._loop.time(), time.process_time()

    def stop(self) -> tuple[float, float]:
        """(seconds, share of one core that this process used in them)."""
        wall_s = self._loop.time() - self._began_s
        cpu_s = time.process_time() - self._began_cpu_s
        return wall_s, round(cpu_s / wall_s, 3) if wall_s else 0.0


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def first_ms(timings: Sequence[Timing]) -> float:
    """The median time to the first token."""
    return to_ms(statistics.median(timing.first_s for timing in timings))


def first_p95_ms(timings: Sequence[Timing]) -> float:
    return to_ms(percentile([timing.first_s for timing in timings], 95))


def hit_rate(timings: Sequence[Timing]) -> float | None:
    """Cached of all prompt tokens; None where an answer did not report it."""
    cached = [timing.cached_tokens for timing in timings if timing.cached_tokens is not None]
    if not timings or len(cached) < len(timings):
        return None
    return round(sum(cached) / sum(timing.prompt_tokens for timing in timings), 4)


def tokens_per_event(timings: Sequence[Timing]) -> float:
    return round(sum(timing.output_tokens for timing in timings) / sum(timing.num_events for timing in timings), 2)


def to_ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
