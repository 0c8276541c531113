"""Decides what is made of many simulated questions: what of their time was the page's own, and what was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.bench.load_person import Asked
from app.bench.load_watch import Cost
from engine.fake_server import Took


@dataclass(frozen=True)
class Spread:
    """Milliseconds."""

    p50: float
    p95: float
    worst: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread | None:
        """None of nothing."""
        if not seconds:
            return None
        ordered = sorted(seconds)
        at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 for share in (0.5, 0.95)]
        return cls(at[0], at[1], ordered[-1] * 1000)


@dataclass(frozen=True)
class WayFigures:
    """Of the page, or of the API.

    Attributes:
        first, done: What was not the engine's of the time until the first word, and until the checked answer.
        unanswered: Questions that got no answer, or an error in its place.
        out_of_order: Answers whose words did not come in order, or whose end lacks some.
        other_place: Whole answers that another place of the documents gave.
        not_kept: Questions that the kept chats no longer have with their answer.
        problems: What was said in place of answers, each once.
    """

    way: str
    questions: int
    first: Spread | None
    done: Spread | None
    unanswered: int
    out_of_order: int
    other_place: int
    not_kept: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadFigures:
    """All of it.

    Attributes:
        cpu_ms, waited_ms: Of the page's process, a question: computing, and ready to compute without a core.
        memory_mb: Of the page's process, the mean of the first, second and last third after the warm-up.
        state: How long the page took to say its state, asked each second: what everything else on it waits too.
        load: The machine's load average, the mean and the highest.
    """

    people: int
    seconds: float
    ways: tuple[WayFigures, ...]
    cpu_ms: float
    waited_ms: float | None
    memory_mb: tuple[float, float, float]
    state: Spread | None
    load: tuple[float, float]


def figures_of_way(way: str, asked: Sequence[Asked], took: Sequence[Took], not_kept: int) -> WayFigures:
    """Args:
    took: What each question took in the engine.
    """
    of_question: dict[str, list[Took]] = {}
    for call in took:
        of_question.setdefault(call.question, []).append(call)
    first, done = [], []
    for each in asked:
        calls = [call for call in of_question.get(each.fact.question, ()) if _within(call, each)]
        if each.problem or each.first_s is None or each.done_s is None or not calls:
            continue
        # A search that asked the engine for other words waited for those calls before the last one, which answers.
        earlier = _covered_s(calls[:-1])
        first.append(each.first_s - earlier - (calls[-1].first_s or 0.0))
        done.append(each.done_s - earlier - (calls[-1].total_s or 0.0))
    answered = [each for each in asked if each.done_s is not None and not each.problem]
    return WayFigures(
        way,
        len(asked),
        Spread.of(first),
        Spread.of(done),
        len(asked) - len(answered),
        sum(each.whole and not each.in_order for each in answered),
        sum(not each.whole for each in answered),
        not_kept,
        tuple(sorted({each.problem or "no end" for each in asked if each.problem or each.done_s is None})),
    )


def thirds(cost: Cost, since: float) -> tuple[float, float, float]:
    """The mean memory of three equal parts of the time after `since`, in MB."""
    samples = [memory for at, memory in cost.memory_mb if at >= since] or [memory for _, memory in cost.memory_mb]
    size = max(1, len(samples) // 3)
    parts = samples[:size], samples[size : max(size + 1, len(samples) - size)] or samples, samples[-size:]
    first, middle, last = (sum(part) / len(part) for part in parts)
    return first, middle, last


def _covered_s(calls: Sequence[Took]) -> float:
    """Seconds in which at least one of them went on: a search asks for several wordings at once."""
    covered, end = 0.0, 0.0
    for call in sorted(calls, key=lambda call: call.at):
        until = call.at + (call.total_s or 0.0)
        covered += max(0.0, until - max(end, call.at))
        end = max(end, until)
    return covered


def _within(call: Took, asked: Asked) -> bool:
    return asked.done_s is not None and asked.at <= call.at <= asked.at + asked.done_s
