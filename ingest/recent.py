"""Decides which searches are not made again: those made a moment ago of a base that has not changed since.

One question is searched up to four times (by its own words, with the dictionary, in the model's other words, and with
what the model makes of the order), each time with all that went before.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache

from ingest.scope import Scope

if TYPE_CHECKING:
    from ingest.search import Hit

# Of ten passages of 200 words each: 1 MB.
MOST_KEPT = 64


@dataclass(frozen=True)
class Searched:
    """All that decides what a search finds.

    Attributes:
        base, generation: The state that was searched.
        embedder: Its name.
        k: So many hits at most.
        also: Further wordings.
        across: Whether a dictionary helped.
    """

    base: str
    generation: int
    embedder: str
    question: str
    scope: Scope
    k: int
    also: tuple[str, ...]
    across: bool


class RecentHits:
    """The hits of the last searches. Safe for several threads."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._kept: LRUCache[Searched, tuple[Hit, ...]] = LRUCache(most)
        self._lock = threading.Lock()

    def get(self, searched: Searched) -> tuple[Hit, ...] | None:
        """None where it was not searched lately."""
        with self._lock:
            return self._kept.get(searched)

    def keep(self, searched: Searched, hits: tuple[Hit, ...]) -> None:
        with self._lock:
            self._kept[searched] = hits
