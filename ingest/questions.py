"""Decides which questions need no embedding: those that were embedded a moment ago.

One question is searched up to three times: by its own words, with the dictionary, and in the model's other words.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from ingest.embed import Embedder, Vectors

# Of 384 dimensions: 1.6 MB.
MOST_KEPT = 1_024


class Questions:
    """The vectors of the questions embedded last. Safe for several threads."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[Embedder, str], Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def vector(self, embedder: Embedder, text: str) -> Vectors:
        """As `embedder.embed_question`; shape (dimension,)."""
        key = (embedder, text)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        vector = embedder.embed_question(text)
        with self._lock:
            self._kept[key] = vector
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return vector
