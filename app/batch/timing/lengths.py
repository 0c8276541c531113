"""Decides how long the answers of a batch are expected to be: as long as those of their kind were."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.batch.timing.clock import MEASURED, AnswerSeen

if TYPE_CHECKING:
    from app.batch.options import BatchOptions

# A row of numbers that falls evenly between 0 and 1, however many are taken of it.
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Lengths:
    """Of answers that may have `most` tokens.

    Attributes:
        seen: What those that were seen would have had, in order; empty where none were.
    """

    most: int
    seen: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """All that an answer may have, where none was seen."""
        return math.fsum(self.seen) / len(self.seen) if self.seen else float(self.most)

    def of(self, count: int) -> list[float]:
        """For so many answers: spread as those that were seen, and the same each time."""
        if not self.seen:
            return [float(self.most)] * count
        places = (0.5 + number * _GOLDEN for number in range(count))
        return [self.seen[int(place % 1 * len(self.seen))] for place in places]

    def error(self, count: int) -> float:
        """By which share the sum of so many may be another one, as a rule; 0 where nothing is known of them."""
        if not self.seen:
            return 0.0
        spread = float(np.std(self.seen)) if len(self.seen) > 1 else self.mean / 2
        return spread / self.mean * math.sqrt(1 / len(self.seen) + 1 / max(count, 1))


def lengths_of(answers: Sequence[AnswerSeen], kind: str, most: int) -> Lengths:
    """Of answers of one kind; of all where none of that kind were seen.

    An answer that was cut would have gone on: as long as all those together say that one goes on.
    """
    told = [one for one in answers if one.kind != MEASURED]
    alike = [one for one in told if one.kind == kind] or told
    if not alike:
        return Lengths(most)
    ended = sum(not one.is_cut for one in alike)
    end_chance = ended / max(sum(one.tokens for one in alike), 1)
    return Lengths(most, tuple(sorted(_within(one, most, end_chance) for one in alike)))


def _within(one: AnswerSeen, most: int, end_chance: float) -> float:
    """Tokens of the answer where `most` are allowed, at least one."""
    left = most - one.tokens
    if not one.is_cut or left <= 0:
        return float(max(min(one.tokens, most), 1))
    further = left if end_chance == 0 else (1 - math.exp(-end_chance * left)) / end_chance
    return one.tokens + min(further, left)


def kind_of(options: BatchOptions) -> str:
    """What decides how long answers are, beside the model: the instructions, and what they have to hold to."""
    if not options.schema and not options.apart:
        return ""
    return hashlib.sha256(f"{options.apart}\0{options.schema}".encode()).hexdigest()[:8]
