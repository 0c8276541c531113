"""Decides in which order cold prefixes are read: the shortest wait for all, and nobody for ever.

Questions come before what nobody asks about yet. Among questions the prefix goes first that is read soonest, less the
seconds that its first question has waited: so what is being read is not put aside without need, and age wins in the
end. Who was overtaken too often goes first whatever it costs.
"""

from __future__ import annotations

from engine.documents import Document, Question
from engine.warm import Cause

PATIENCE = 8  # reads that came later and went first, where a question waits
BACKGROUND_PATIENCE = 32
MIN_AGE_S = 5.0

_RANKS: dict[Cause, int] = {"selected": 0, "registered": 1, "resumed": 2, "restarted": 3}


def turn(document: Document, left_s: float, now_s: float) -> tuple[int, float, int]:
    """The lower, the sooner.

    Args:
        left_s: Seconds that reading the rest takes.
    """
    if is_overtaken(document):
        return 0, 0.0, document.number
    if document.waiting:
        return 1, left_s - (now_s - document.waiting[0].arrived_s), document.number
    cause = document.warming.cause if document.warming else "restarted"
    return 2, float(_RANKS[cause]), document.number


def outranks(cause: Cause, other: Cause) -> bool:
    """Whether a wish to warm for the one cause goes before one for the other."""
    return _RANKS[cause] < _RANKS[other]


def is_overtaken(document: Document) -> bool:
    return document.num_overtaken >= (PATIENCE if document.waiting else BACKGROUND_PATIENCE)


def is_aged(question: Question, left_s: float, now_s: float) -> bool:
    """It has waited so long that nobody takes room before it any more."""
    return is_overtaken(question.document) or now_s - question.arrived_s > max(MIN_AGE_S, 2 * left_s)
