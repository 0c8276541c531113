"""Decides what is remembered of how fast answers came: figures of the last questions, never their words.

In memory and for this process alone: a slow answer is looked into while it is fresh, and nothing of it stays.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.base import Receipt

MOST_KEPT = 500


@dataclass(frozen=True)
class Asked:
    """One question's figures.

    Attributes:
        at: Unix time in seconds of its end.
        search_ms: Until it was known what to read; the receipt's times begin after it.
    """

    at: float
    person: str
    kb: str
    receipt: Receipt
    search_ms: float = 0.0

    @property
    def first_word_ms(self) -> float | None:
        """As whoever asked saw it; None without a word."""
        return None if self.receipt.first_token_ms is None else self.search_ms + self.receipt.first_token_ms

    @property
    def total_ms(self) -> float:
        return self.search_ms + self.receipt.total_ms


class Times:
    """The last `MOST_KEPT` questions. Safe for several threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._asked: deque[Asked] = deque(maxlen=MOST_KEPT)
        self._lock = threading.Lock()

    def note(self, person: str, kb: str, receipt: Receipt, search_ms: float = 0.0) -> None:
        with self._lock:
            self._asked.append(Asked(self._clock(), person, kb, receipt, search_ms))

    def all(self) -> tuple[Asked, ...]:
        """In the order in which they ended."""
        with self._lock:
            return tuple(self._asked)

    def slowest(self, most: int) -> tuple[Asked, ...]:
        """Those whose first word took longest, the slowest first; those without a word are left out."""
        with_words = [asked for asked in self.all() if asked.first_word_ms is not None]
        return tuple(sorted(with_words, key=lambda asked: -(asked.first_word_ms or 0.0))[:most])

    def first_word_ms(self, share: float) -> float | None:
        """So many milliseconds or fewer did `share` (0 to 1) of the first words take; None before the first."""
        took = sorted(asked.first_word_ms for asked in self.all() if asked.first_word_ms is not None)
        return took[min(len(took) - 1, int(share * len(took)))] if took else None


TIMES = Times()
"""Of this process: every way in notes its questions here."""
