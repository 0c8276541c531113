"""Decides how fast an engine is taken to be, from the reads and answers that were seen of it.

Reading and answering are told apart, and of an answer its words from the rest: what a batch of many reads and few
answers teaches holds for one of few reads and many answers, and short answers tell of long ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from app.batch.timing.clock import MEASURED, AnswerSeen, ReadSeen, Seen
from app.batch.timing.level import Level, Measured, level
from app.batch.timing.line import Point, is_another_time, line

S = TypeVar("S", ReadSeen, AnswerSeen)

# Beside something else longer than this share of its time, and it does not tell how fast it is alone.
_ALONE = 0.1
# What is seen of so many answers at once tells less of twice as many.
_OTHER_WIDTH = 0.1
# An engine works on: a read beside answers, and answers beside a read, are never taken to stand still.
_LEAST_SHARE = 0.02
# What answers have of an engine's time while something is read, before that was seen.
_ANSWERS_SHARE = 0.25


@dataclass(frozen=True)
class Rates:
    """Of one engine.

    Attributes:
        read_token_s, read_further_s: Each of n tokens that are read takes `read_token_s` + n * `read_further_s`
            seconds: those further behind look at more.
        step_s: Seconds from one token of an answer to its next, where `width` answers run; each answer more or less
            makes it `step_answer_s` longer or shorter.
        other_s: What an answer takes beside its words, where `width` run and `question_tokens` are computed for it.
        reading_share, answering_share: What is left of the speed of a read while answers run, and of theirs.
        read_error, answer_error: The share by which each may be wrong, as a rule.
    """

    read_token_s: float
    read_further_s: float
    step_s: float
    step_answer_s: float
    other_s: float
    width: float
    question_tokens: float
    reading_share: float = 1 - _ANSWERS_SHARE
    answering_share: float = _ANSWERS_SHARE
    read_error: float = 0.0
    answer_error: float = 0.0

    def reading_s(self, num_tokens: float) -> float:
        """While no answer runs."""
        return num_tokens * (self.read_token_s + num_tokens * self.read_further_s)

    def step_of(self, width: float) -> float:
        """Seconds from one token to the next, where so many answers run."""
        return max(self.step_s + (width - self.width) * self.step_answer_s, self.step_s / self.width)

    def starting_s(self, width: float, question_tokens: float) -> float:
        """What an answer takes beside its words; the questions of all that run are computed one behind the other."""
        more = (question_tokens - self.question_tokens) * self.read_token_s * self.width
        at_width = max(self.other_s + more, self.other_s / 4)
        return at_width * self.step_of(width) / self.step_s


def rates_of(seen: Seen, now_s: float, width: int) -> Rates | None:
    """As the engine is now; None where no read, or no answer of several tokens, was seen.

    Args:
        now_s: Unix seconds.
        width: So many answers will run together.
    """
    reads = [one for one in seen.reads if one.tokens > 0 and one.seconds > 0]
    alone = [one for one in reads if one.beside_s <= _ALONE * one.seconds] or reads
    spoken = [one for one in seen.answers if one.spoken_tokens > 0 and one.speaking_s > 0]
    undisturbed = [one for one in spoken if one.beside <= _ALONE] or spoken
    if not alone or not undisturbed:
        return None
    first, further = line([Point(one.at_s, one.tokens, one.seconds / one.tokens, one.seconds) for one in alone])
    reading = _of_shape(
        [Measured(one.at_s, one.seconds, one.seconds / one.tokens / (first + further * one.tokens)) for one in alone],
        now_s,
    )
    step, more = line([Point(one.at_s, one.width, _step_s(one), one.speaking_s) for one in undisturbed])
    answering = _of_shape(
        [
            Measured(
                one.at_s,
                one.speaking_s,
                _step_s(one) / (step + more * one.width),
                _doubt(one, width),
            )
            for one in undisturbed
        ],
        now_s,
    )
    at_width = step + more * width
    # A measurement of the engine alone lacks what an answer takes on this side of it.
    asked = [one for one in undisturbed if one.kind != MEASURED] or undisturbed
    # In steps: on a machine that is busier both are longer.
    other = _of_shape(
        [Measured(one.at_s, one.seconds, one.other_s / _step_s(one), _doubt(one, width)) for one in asked], now_s
    )
    rates = Rates(
        first * reading.value,
        further * reading.value,
        at_width * answering.value,
        more * answering.value,
        other.value * at_width * answering.value,
        float(width),
        math.fsum(one.question_tokens for one in asked) / len(asked),
        read_error=reading.error,
        answer_error=answering.error,
    )
    return _together(rates, reads, spoken)


def _together(rates: Rates, reads: Sequence[ReadSeen], answers: Sequence[AnswerSeen]) -> Rates:
    """With what reads and answers leave of each other now; where neither was seen beside the other, they share it."""
    reads, answers = _of_now(reads), _of_now(answers)
    beside_s = math.fsum(one.beside_s for one in reads)
    missing_s = math.fsum(rates.reading_s(one.tokens) - one.alone_s for one in reads if one.beside_s > 0)
    reading_share = missing_s / beside_s if beside_s > 0 else rates.reading_share
    beside_s = math.fsum(one.beside * one.seconds for one in answers)
    missing_s = math.fsum(
        rates.starting_s(one.width, one.question_tokens)
        + one.spoken_tokens * rates.step_of(one.width)
        - (1 - one.beside) * one.seconds
        for one in answers
        if one.beside > 0
    )
    answering_share = missing_s / beside_s if beside_s > 0 else rates.answering_share
    return replace(
        rates,
        reading_share=min(max(reading_share, _ALONE), 1.0),
        answering_share=min(max(answering_share, _LEAST_SHARE), 1.0),
    )


def _step_s(one: AnswerSeen) -> float:
    return one.speaking_s / one.spoken_tokens


def _of_now(seen: Sequence[S]) -> Sequence[S]:
    """Those of the last time in which any were seen: rates of now tell nothing of the others."""
    begin = max(
        (after for after, (one, other) in enumerate(pairwise(seen), 1) if is_another_time(one.at_s, other.at_s)),
        default=0,
    )
    return seen[begin:]


def _doubt(one: AnswerSeen, width: int) -> float:
    return _OTHER_WIDTH * math.log(max(one.width, 1.0) / width) ** 2


def _of_shape(measured: Sequence[Measured], now_s: float) -> Level:
    return level(measured, now_s) or Level(0.0, 0.0)
