"""Decides how fast an engine is taken to be: as fast as it was in the last minutes of batches of this home.

A batch counts by the time it took, so that a small one changes little. Reading and answering are told apart: what a
batch of many reads and few answers teaches holds for one of few reads and many answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from app.batch.clock import Answering, Work

if TYPE_CHECKING:
    from app.settings import Settings

_NAME = "batch-rates.json"
# What is remembered of an engine; older work fades.
_REMEMBERED_S = 600.0
# Whatever is taken off a measured time for what ran beside, so much of it stays.
_LEAST_LEFT = 0.1


@dataclass(frozen=True)
class Rates:
    """Of one engine.

    Attributes:
        read_token_s: Seconds for each token that is read.
        step_s, step_answer_s: Each of n answers that run gets a token in `step_s` + n * `step_answer_s` seconds.
        answer_tokens: Of an answer, on average.
    """

    read_token_s: float
    step_s: float
    step_answer_s: float
    answer_tokens: float

    def reading_s(self, num_tokens: float) -> float:
        return num_tokens * self.read_token_s

    def answering_s(self, answers: float, at_once: int) -> float:
        """Of so many answers, `at_once` of them at any moment, once their questions are computed."""
        return answers * self.answer_tokens * (self.step_s / at_once + self.step_answer_s)

    def last_s(self, at_once: int) -> float:
        """What the end of a batch takes longer, since the last answers do not end together."""
        return self.answering_s(1, 1) / 2 if at_once > 1 else 0.0


def rates_of(work: Work) -> Rates | None:
    """None where it read or answered nothing to measure.

    While something is read answers come too, slower. What they would have taken without it is taken off the time of
    reading: that and the answering are then as long together as they were.
    """
    answering = {number: one for number, one in work.answering.items() if one.tokens > 0 and one.seconds > 0}
    tokens = sum(one.tokens for one in answering.values())
    if not tokens or work.read_tokens <= 0 or work.read_s <= 0 or work.answers <= 0:
        return None
    token_s = sum(one.seconds for one in answering.values()) / tokens
    read_s = max(work.read_s - work.beside_tokens * token_s, _LEAST_LEFT * work.read_s)
    read_token_s = read_s / work.read_tokens
    # Questions are computed at the speed of reading, in the same time as the answers.
    asked_s = read_token_s * work.question_tokens / (tokens + work.beside_tokens)
    steps = {
        number: (one.seconds, number * max(one.seconds / one.tokens - asked_s, _LEAST_LEFT * one.seconds / one.tokens))
        for number, one in answering.items()
    }
    step_s, step_answer_s = _line(steps)
    return Rates(read_token_s, step_s, step_answer_s, work.output_tokens / work.answers)


def _line(steps: dict[int, tuple[float, float]]) -> tuple[float, float]:
    """The line through (number at once, seconds of a step), weighed by the time each was seen; both parts positive."""
    weight = sum(seen_s for seen_s, _ in steps.values())
    mean_n = sum(seen_s * number for number, (seen_s, _) in steps.items()) / weight
    mean_s = sum(seen_s * step_s for seen_s, step_s in steps.values()) / weight
    spread = sum(seen_s * (number - mean_n) ** 2 for number, (seen_s, _) in steps.items())
    both = sum(seen_s * (number - mean_n) * (step_s - mean_s) for number, (seen_s, step_s) in steps.items())
    slope = min(max(both / spread, 0.0), mean_s / mean_n) if spread else 0.0
    return mean_s - slope * mean_n, slope


def load_work(settings: Settings) -> Work | None:
    """None before the first batch on this engine, and where what is kept does not read."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        kept: Any = json.loads((settings.home / _NAME).read_text(encoding="utf-8"))[_engine(settings)]
        answering = {int(number): Answering(**one) for number, one in kept.pop("answering").items()}
        return Work(answering=answering, **{name: float(value) for name, value in kept.items()})
    return None


def load_rates(settings: Settings) -> Rates | None:
    work = load_work(settings)
    return None if work is None else rates_of(work)


def keep_work(settings: Settings, work: Work) -> None:
    """Beside what is remembered of this engine. What can't be written is not kept: an estimate is all that is lost."""
    path = settings.home / _NAME
    kept: dict[str, object] = {}
    with contextlib.suppress(OSError, ValueError):
        kept = dict(json.loads(path.read_text(encoding="utf-8")))
    kept[_engine(settings)] = asdict(remembered(load_work(settings) or Work(), work))
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=settings.home, prefix=_NAME)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
            os.replace(name, path)
        except OSError:
            os.unlink(name)


def remembered(before: Work, now: Work) -> Work:
    """Both together, as if the older had been a smaller batch where they are more than is remembered."""
    share = min(1.0, max(0.0, _REMEMBERED_S - now.seconds) / before.seconds) if before.seconds else 0.0
    numbers = sorted({*before.answering, *now.answering})
    none = Answering(0.0, 0.0)
    pairs = {number: (before.answering.get(number, none), now.answering.get(number, none)) for number in numbers}
    return Work(
        share * before.read_tokens + now.read_tokens,
        share * before.read_s + now.read_s,
        share * before.beside_tokens + now.beside_tokens,
        {
            number: Answering(share * old.seconds + new.seconds, share * old.tokens + new.tokens)
            for number, (old, new) in pairs.items()
        },
        share * before.answers + now.answers,
        share * before.output_tokens + now.output_tokens,
        share * before.question_tokens + now.question_tokens,
    )


def _engine(settings: Settings) -> str:
    where = settings.engine_url or settings.engine_profile.name
    return f"{settings.model_name} on {where}, answers of {settings.answer_tokens}"
