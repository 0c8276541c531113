"""Decides when each answer of a plan is expected: reads one after the other, and the answers at the engine's speed.

A read and the answers beside it take as long as one after the other would: the engine computes both in the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.batch.rates import Rates


def expected(
    rates: Rates, groups: Sequence[tuple[int, int]], at_once: int, question_tokens: float, wave: int = 1
) -> list[float]:
    """Seconds until each answer, in the order of the plan.

    Args:
        groups: (tokens that are read for it, questions) of each; 0 where it is held already.
        question_tokens: Computed for all questions together.
        wave: So many reads come before the questions on them.
    """
    num_questions = sum(size for _, size in groups)
    if not num_questions:
        return []
    asked_s = rates.reading_s(question_tokens / num_questions)
    ends_s: list[float] = []
    now_s = 0.0
    for read_tokens, size in _between_reads(groups, wave):
        # No more run together than there are between two reads.
        each_s = asked_s + rates.answering_s(1, min(at_once, size))
        now_s += rates.reading_s(read_tokens)
        ends_s += [now_s + number * each_s for number in range(1, size + 1)]
        now_s += size * each_s
    last_s = rates.last_s(min(at_once, num_questions))
    return [end_s + last_s for end_s in ends_s]


def _between_reads(groups: Sequence[tuple[int, int]], wave: int) -> list[tuple[int, int]]:
    """The same, what is asked together as one: the groups of a wave, and those behind it that are not read."""
    joined: list[tuple[int, int]] = []
    num_reads = 0
    for read_tokens, size in groups:
        if joined and (not read_tokens or 0 < num_reads < wave):
            joined[-1] = (joined[-1][0] + read_tokens, joined[-1][1] + size)
        else:
            joined.append((read_tokens, size))
            num_reads = 0
        num_reads += read_tokens > 0
    return joined
