"""Decides the order of a batch: questions on one prefix together, what the engine holds first, each prefix once.

Of what has to be read, that comes first whose first deadline does. An answer is due no later than what follows it.
A prefix comes a second time only where a follow-up has to wait for an answer on another one, and that one for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.batch.choice import Choice
from app.batch.pool import HELD_SHARE


@dataclass(frozen=True, eq=False)
class Group:
    """Questions on one prefix, asked in this order; a follow-up stands behind what it follows. Compared by identity.

    Attributes:
        is_again: The prefix had questions before, and others came between.
    """

    prefix: str
    num_tokens: int
    choices: tuple[Choice, ...]
    is_again: bool = False


def in_order(choices: Sequence[Choice], resident: Mapping[str, int]) -> tuple[Group, ...]:
    """All choices in groups, whatever order they come in.

    Args:
        resident: Tokens that the engine holds of a prefix, by handle.
    """
    left: dict[str, list[Choice]] = defaultdict(list)
    for choice in choices:
        left[choice.prefix].append(choice)
    to_come = {choice.question.id for choice in choices}
    heights, dues = _heights(choices), _dues(choices)
    order = sorted(left, key=lambda prefix: _rank(left[prefix], resident.get(prefix, 0), dues))
    groups: list[Group] = []
    seen: set[str] = set()
    while order:
        takeable = {}
        for prefix in order:
            takeable[prefix] = _takeable(left[prefix], to_come)
            if len(takeable[prefix]) == len(left[prefix]):
                break
        whole = next((key for key, taken in takeable.items() if len(taken) == len(left[key])), None)
        prefix = whole or next(key for key, taken in takeable.items() if taken)
        taken = takeable[prefix]
        # Of those with one deadline the longest chain begins first: nothing else is left to run beside its end.
        ordered = sorted(taken, key=lambda one: (dues[one.question.id], -heights[one.question.id], one.question.row))
        groups.append(Group(prefix, taken[0].num_tokens, tuple(ordered), prefix in seen))
        seen.add(prefix)
        to_come -= {choice.question.id for choice in taken}
        left[prefix] = [choice for choice in left[prefix] if choice.question.id in to_come]
        if not left[prefix]:
            order.remove(prefix)
    return tuple(groups)


def _rank(
    choices: Sequence[Choice], resident_tokens: int, dues: Mapping[str, float]
) -> tuple[bool, float, float, tuple[str, str, int]]:
    """What is held most completely comes first, since others would evict it; then what is due first; then parts of a
    document together."""
    share = resident_tokens / choices[0].num_tokens
    due_s = min(dues[choice.question.id] for choice in choices)
    part = min(choice.part for choice in choices)
    return (False, -share, due_s, part) if share >= HELD_SHARE else (True, due_s, -share, part)


def _takeable(choices: Sequence[Choice], to_come: set[str]) -> list[Choice]:
    """Those that wait for no answer on another prefix."""
    taken: list[Choice] = []
    waiting = list(choices)
    names: set[str] = set()
    while waiting:
        ready = [one for one in waiting if one.waits_for not in to_come or one.waits_for in names]
        if not ready:
            break
        taken += ready
        names |= {one.question.id for one in ready}
        waiting = [one for one in waiting if one.question.id not in names]
    return taken


def _dues(choices: Sequence[Choice]) -> dict[str, float]:
    """The deadline of each, or of what waits for it where that is sooner; infinite where there is none."""
    dues = {one.question.id: math.inf if one.due_s is None else one.due_s for one in choices}
    before = {one.question.id: one.waits_for for one in choices}
    for name in sorted(dues, key=lambda name: dues[name]):
        at = before[name]
        while at is not None and at in dues and dues[at] > dues[name]:
            dues[at] = dues[name]
            at = before[at]
    return dues


def _heights(choices: Sequence[Choice]) -> dict[str, int]:
    """How many questions follow one another behind each."""
    heights = {choice.question.id: 0 for choice in choices}
    before = {choice.question.id: choice.waits_for for choice in choices}
    for name in before:
        height, at = 0, before[name]
        while at is not None and at in heights:
            height += 1
            if heights[at] >= height:
                break
            heights[at] = height
            at = before[at]
    return heights
