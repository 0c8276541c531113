"""Decides vectors without a model: each word falls into a place given by its hash. For tests and trials."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from ingest.embed import BatchDone, Vectors
from ingest.keywords import keywords
from ingest.scale import Scale


class HashingEmbedder:
    """Texts that share words are near each other; knows no meaning. Obeys `ingest.embed.Embedder`.

    Args:
        max_tokens: The most words of a passage, so that tests can make passages small.
    """

    name = "hashing"
    _SCALE = Scale(unlike=0.0, evidence=0.30, alike=1.0)  # it finds what words find: never sure by itself

    def __init__(self, dimension: int = 256, max_tokens: int = 200) -> None:
        self.dimension = dimension
        self.max_tokens = max_tokens

    def scale(self, text: str) -> Scale | None:
        return self._SCALE

    def count_tokens(self, text: str) -> int:
        """Words, and every sixth character of a long one, so that no text is free."""
        return sum(1 + len(word) // 6 for word in text.split())

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self.embed_question(text)
        if batch_done:
            batch_done(len(texts), len(texts))
        return vectors

    def embed_question(self, text: str) -> Vectors:
        vector = np.zeros(self.dimension, dtype=np.float32)
        place = None
        for word in keywords(text):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            place = int.from_bytes(digest[:6], "big") % self.dimension
            vector[place] += 1.0 if digest[7] & 1 else -1.0
        if place is not None and not vector.any():
            vector[place] = 1.0  # words that cancel each other out: a text with words has a direction
        length = float(np.linalg.norm(vector))
        return vector / length if length else vector
