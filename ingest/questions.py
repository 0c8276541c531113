"""Decides which questions need no embedding: those that were embedded a moment ago, or are being embedded now.

One question is searched up to four times: by its own words, with the dictionary, in the model's other words, and with
what the model makes of the order.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

from cachetools import LRUCache

from ingest.embed import Embedder, Vectors

# Of 384 dimensions: 1.6 MB.
MOST_KEPT = 1_024


class Questions:
    """The vectors of the questions embedded last. Safe for several threads: one is made once."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._kept: LRUCache[tuple[Embedder, str], Future[Vectors]] = LRUCache(most)
        self._lock = threading.Lock()

    def vector(self, embedder: Embedder, text: str) -> Vectors:
        """As `embedder.embed_question`; shape (dimension,)."""
        key = (embedder, text)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                made = self._kept[key] = Future()
        if kept is not None:
            return kept.result()
        try:
            made.set_result(embedder.embed_question(text))
        except BaseException as error:
            with self._lock:
                self._kept.pop(key, None)
            made.set_exception(error)
        return made.result()
