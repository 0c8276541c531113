"""Decides which figures of a result people see, in which words, which way is better, and what a ratio means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.bench.results import Batch, Burst, File, Gap, Replay, Result, Trace, Warm

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True)
class Figure:
    """One of a scenario's; `field` is its name in the result."""

    field: str
    words: str
    better: Better = "neither"

    def of(self, result: Result) -> float | None:
        value: float | None = getattr(result, self.field)
        return value


_REUSED = Figure("hit_rate", "reused, share of prompts", "higher")
_FIRST = Figure("first_ms", "first token, median ms", "lower")
_FIRST_P95 = Figure("first_p95_ms", "first token, 95 % in ms", "lower")
_CLIENT = Figure("client_cpu_share", "measuring takes, of a core")
_EVENT = Figure("tokens_per_event", "tokens an event")

FIGURES: dict[type[Result], tuple[Figure, ...]] = {
    Warm: (
        Figure("cold_ms", "first token cold, ms", "lower"),
        Figure("warm_ms", "first token warm, ms", "lower"),
        Figure("cached_tokens", "reused tokens", "higher"),
        Figure("prompt_tokens", "prompt tokens"),
    ),
    Burst: (
        Figure("tokens_per_s", "tokens/s, all answers", "higher"),
        _FIRST,
        _FIRST_P95,
        Figure("wall_s", "all answered, s", "lower"),
        _EVENT,
        _CLIENT,
    ),
    Gap: (
        Figure("gap_p50_ms", "gap between tokens, median ms", "lower"),
        Figure("gap_p99_ms", "99 % of the gaps in ms", "lower"),
        Figure("gap_max_ms", "longest gap, ms", "lower"),
        Figure("warm_first_ms", "first warm question meanwhile, ms", "lower"),
        Figure("warm_p50_ms", "median of the warm ones, ms", "lower"),
        Figure("warm_worst_ms", "slowest of those, ms", "lower"),
        Figure("warm_questions", "warm questions answered", "higher"),
        Figure("cold_s", "cold document, s", "lower"),
        Figure("cold_ratio", "of its time alone", "lower"),
        _EVENT,
        _CLIENT,
    ),
    Trace: (
        Figure("questions_per_s", "questions/s", "higher"),
        _REUSED,
        _FIRST,
        _FIRST_P95,
        _CLIENT,
    ),
    Replay: (
        Figure("requests_per_s", "requests/s", "higher"),
        _REUSED,
        Figure("best_hit_rate", "a cache without end"),
        _FIRST,
        _FIRST_P95,
        Figure("mean_prompt_tokens", "mean prompt, tokens"),
        _CLIENT,
    ),
    Batch: (
        Figure("mean_prompt_tokens", "mean length, tokens"),
        Figure("tokens_per_s", "tokens/s, all answers", "higher"),
        Figure("pool_used", "memory, share in use"),
        Figure("success_rate", "answered whole, share", "higher"),
        _REUSED,
    ),
    File: (
        Figure("questions_per_s", "questions/s", "higher"),
        Figure("tokens_per_s", "tokens/s, all answers", "higher"),
        _REUSED,
        Figure("mean_prompt_tokens", "mean length, tokens"),
        Figure("pool_used", "memory, share in use"),
        Figure("success_rate", "answered whole, share", "higher"),
        _CLIENT,
    ),
}


def times_better(figure: Figure, ours: float | None, theirs: float | None) -> float | None:
    """How many times better ours is (below 1: worse); None where that says nothing."""
    if ours is None or theirs is None or figure.better == "neither":
        return None
    best, other = (theirs, ours) if figure.better == "lower" else (ours, theirs)
    return round(best / other, 2) if other else None


@dataclass(frozen=True)
class Compared:
    """A figure of one case in all systems that were measured.

    Attributes:
        values: In the order of the systems; None where it was not measured or not reported.
        ratios: `times_better` of the first system over each later one.
    """

    scenario: str
    case: str
    figure: Figure
    values: tuple[float | None, ...]
    ratios: tuple[float | None, ...]


def compare(measured: Sequence[tuple[str, Result]], systems: Sequence[str]) -> list[Compared]:
    """One row a figure, cases in the order in which they were first measured.

    Args:
        measured: (system, result) pairs.
        systems: The first one is what the others are compared with.
    """
    cases: dict[tuple[str, str], dict[str, Result]] = {}
    for system, result in measured:
        cases.setdefault((result.scenario, result.case), {})[system] = result
    rows = []
    for (scenario, case), by_system in cases.items():
        for figure in FIGURES[type(next(iter(by_system.values())))]:
            values = tuple(figure.of(by_system[system]) if system in by_system else None for system in systems)
            ratios = tuple(times_better(figure, values[0], value) for value in values[1:])
            rows.append(Compared(scenario, case, figure, values, ratios))
    return rows
