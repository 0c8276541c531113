"""Decides what is read in a measurement: fresh words of an exact length, and how often each document is asked about."""

from __future__ import annotations

import itertools
import random
from bisect import bisect
from collections.abc import Sequence
from typing import Protocol

from engine.bench.base import Document

_WORDS = (
    *("valley", "weather", "station", "keeper", "wind", "snow", "gauge", "ridge", "morning", "evening", "cloud"),
    *("north", "south", "rain", "frost", "measure", "note", "mast", "window", "storm", "sun", "shadow", "stone"),
    *("road", "path", "river", "bridge", "hut", "lamp", "winter", "summer", "degree", "wet", "dry", "early", "late"),
)
# Pairs of a word and a number: three to five tokens each, so that little is encoded in vain.
_PAIRS_A_TOKEN = 0.3


class Encoder(Protocol):
    """`tokenizer.Tokenizer`, or what speaks like it."""

    def encode_text(self, text: str) -> tuple[int, ...]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class Writer:
    """Writes documents and questions that share no beginning with any other one.

    Args:
        seed: The same seed gives the same words; None: other ones each time, so that nothing is reused across runs.
    """

    def __init__(self, encoder: Encoder, seed: int | None = None) -> None:
        self._encoder = encoder
        self._random = random.Random(seed)

    def ids(self, num_tokens: int) -> tuple[int, ...]:
        """Exactly so many ids of random words."""
        ids: tuple[int, ...] = ()
        while len(ids) < num_tokens:
            ids += self._encoder.encode_text(self._pairs(max(8, round((num_tokens - len(ids)) * _PAIRS_A_TOKEN))))
        return ids[:num_tokens]

    def document(self, num_tokens: int) -> Document:
        """Exactly so many tokens. The text is what the ids say: encoded again it may be a few tokens longer."""
        return self.of_ids(self.ids(num_tokens))

    def of_ids(self, ids: tuple[int, ...]) -> Document:
        return Document(ids, self._encoder.decode(ids))

    def _pairs(self, count: int) -> str:
        # A number after each word: two documents differ within their first tokens, whatever the block size.
        pairs = (f" {self._random.choice(_WORDS)} {self._random.randrange(1000)}" for _ in range(count))
        return "".join(pairs)


def zipf_draws(num_documents: int, num_draws: int, seed: int) -> tuple[int, ...]:
    """Which document each question is about: number n is asked 1/(n + 1) times as often as number 0 (Zipf, s = 1)."""
    steps = list(itertools.accumulate(1 / (number + 1) for number in range(num_documents)))
    dice = random.Random(seed)
    return tuple(min(bisect(steps, dice.random() * steps[-1]), num_documents - 1) for _ in range(num_draws))
