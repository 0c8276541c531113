"""Decides which blocks one engine core holds, from its KV events alone; says so where the events do not tell.

A number of batches is in order, repeated, or ahead of one that is missing. What is ahead waits until a replay has
brought the missing one, or has shown that it is gone: then nothing is known until the core says that it holds nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

LOG_LENGTH = 65_536
_log = logging.getLogger("vllm.readonce")


@dataclass(frozen=True)
class Stored:
    """Blocks that a lookup can find from now on; `ids` are `hashing.block_id`s, one is repeated for each copy."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Removed:
    """One copy of each of these blocks is gone."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Cleared:
    """Nothing is held any more."""


@dataclass(frozen=True)
class Doubt:
    """An event that does not fit what is assumed here, in one sentence."""

    reason: str


Change = Stored | Removed | Cleared | Doubt


@dataclass(frozen=True)
class Batch:
    """What one step of the core changed.

    Attributes:
        number: 0 for the first one of a core, then one more each.
        time_s: When it was made, on the core's clock (Unix seconds).
    """

    number: int
    time_s: float
    changes: tuple[Change, ...]


class Holdings:
    """Blocks by id, with the number of copies.

    Args:
        num_blocks: Of the pool, the null block included: more than it can hold proves the count wrong.

    Attributes:
        why_unknown: None, or why nothing can be said now.
        stored_blocks, evicted_blocks: Told of since the start, copies counted; a clear is no eviction.
        clears: How often the core said that it holds nothing.
        losses: How often knowledge was lost.
        removals: Changes whenever a block may have gone: a run found earlier can only have grown while it is the same.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_usable = num_blocks - 1
        self._counts: dict[int, int] = {}
        self._num_resident = 0
        self._next = 0
        self._time_s = float("-inf")
        self._ahead: dict[int, Batch] = {}
        self._awaited_clears = 0
        # The last changes: an id for a copy stored, its complement for one removed, the former counts for a clear.
        self._changes: deque[int | dict[int, int]] = deque(maxlen=LOG_LENGTH)
        self._num_changes = 0
        self.why_unknown: str | None = None
        self.stored_blocks = self.evicted_blocks = self.clears = self.losses = self.removals = 0

    @property
    def next_number(self) -> int:
        """The batch that is needed next."""
        return self._next

    @property
    def is_missing_some(self) -> bool:
        """Batches are there whose predecessors are not."""
        return bool(self._ahead)

    @property
    def resident_blocks(self) -> int | None:
        """Copies counted."""
        return None if self.why_unknown else self._num_resident

    @property
    def mark(self) -> int:
        """This moment, for `runs_since` and `was_stored_since`."""
        return self._num_changes

    def apply(self, batch: Batch) -> bool:
        """Takes a batch in; False while one before it is missing: ask for a replay from `next_number`."""
        if batch.number < self._next:
            if batch.time_s <= self._time_s:
                return not self._ahead
            # Made later than a batch with a higher number: another core, which began with an empty pool.
            self._ahead.clear()
            self._begin_again()
        self._ahead[batch.number] = batch
        self._take_what_is_next()
        return not self._ahead

    def end_replay(self) -> None:
        """The replay is over: what is still missing never comes."""
        if self._ahead:
            self._lose(f"batches {self._next} to {min(self._ahead) - 1} of the KV events were lost")
            self._next = min(self._ahead)
            self._take_what_is_next()

    def expect_clear(self) -> None:
        """The cache was reset, which vLLM tells only with its next step: until then, what it tells is older."""
        self._clear()
        self.why_unknown = None
        self._awaited_clears += 1

    def run(self, ids: Sequence[int], start: int = 0) -> int | None:
        """How many of `ids` are held, without a hole, from the first one on; `start` of them are known to be."""
        if self.why_unknown:
            return None
        counts = self._counts
        for position, one in enumerate(islice(ids, start, None), start):
            if one not in counts:
                return position
        return len(ids)

    def runs_since(self, mark: int, ids: Sequence[int]) -> set[int] | None:
        """What `run` would have given at every moment from `mark` until now; None where that is not kept any more."""
        if self.why_unknown or self._num_changes - mark > len(self._changes):
            return None
        present = {one: self._counts.get(one, 0) for one in ids}
        runs = {_run(present, ids)}
        for change in islice(reversed(self._changes), self._num_changes - mark):
            if isinstance(change, dict):
                present = {one: change.get(one, 0) for one in ids}
            else:
                one, copies = (change, -1) if change >= 0 else (~change, 1)
                if one not in present:
                    continue
                present[one] += copies
            runs.add(_run(present, ids))
        return runs

    def was_stored_since(self, mark: int, one: int) -> bool:
        """Whether the core told of this block since `mark`, or must be taken to have done so."""
        if self.why_unknown or self._num_changes - mark > len(self._changes):
            return True
        return one in islice(reversed(self._changes), self._num_changes - mark)

    def _take_what_is_next(self) -> None:
        while (batch := self._ahead.pop(self._next, None)) is not None:
            self._next += 1
            self._time_s = max(self._time_s, batch.time_s)
            for change in batch.changes:
                self._change(change)

    def _change(self, change: Change) -> None:
        match change:
            case Stored(ids):
                self.stored_blocks += len(ids)
                self._count(ids, 1)
            case Removed(ids):
                self.evicted_blocks += len(ids)
                self._count(ids, -1)
            case Cleared():
                self.clears += 1
                self._awaited_clears = max(0, self._awaited_clears - 1)
                self._clear()
                self.why_unknown = None
            case Doubt(reason):
                self._lose(reason)

    def _count(self, ids: Iterable[int], copies: int) -> None:
        if self.why_unknown or self._awaited_clears:
            return
        for one in ids:
            count = self._counts.get(one, 0) + copies
            if count < 0:
                return self._lose("a block was removed that was never stored")
            if count:
                self._counts[one] = count
            else:
                del self._counts[one]
                self.removals += 1
            self._num_resident += copies
            self._changes.append(one if copies > 0 else ~one)
            self._num_changes += 1
        if self._num_resident > self._num_usable:
            self._lose(f"{self._num_resident} blocks were stored in a pool of {self._num_usable}")

    def _clear(self) -> None:
        self._changes.append(self._counts)
        self._num_changes += 1
        self._counts = {}
        self._num_resident = 0
        self.removals += 1

    def _begin_again(self) -> None:
        self._clear()
        self._next = self._awaited_clears = 0
        self.why_unknown = None

    def _lose(self, reason: str) -> None:
        if not self.why_unknown:
            _log.warning("What the cache holds is not known until it is emptied or restarted: %s.", reason)
        self.losses += 1
        self._clear()
        self._changes.clear()
        self._awaited_clears = 0
        self.why_unknown = reason


def _run(present: dict[int, int], ids: Sequence[int]) -> int:
    return next((position for position, one in enumerate(ids) if not present[one]), len(ids))
