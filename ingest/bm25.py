"""Decides how words weigh: SQLite's BM25 with a rarity of our own, as a share of the most that there could be."""

from __future__ import annotations

import math
from collections.abc import Mapping

# BM25's k1 in SQLite; a word's weight comes near to (k1 + 1) times its rarity, never above.
K1 = 1.2
_UNSEEN_PASSAGES = 20


def rarity(total: int, having: float) -> float:
    """BM25's weight of a word, as if the base had some passages more: a base of one document knows no common words."""
    return math.log(1 + (total - having + _UNSEEN_PASSAGES) / (having + 1))


def sqlite_rarity(total: int, having: int) -> float:
    """What SQLite's bm25() multiplies with: next to nothing for a word in more than half of the passages."""
    return max(1e-6, math.log((total - having + 0.5) / (having + 0.5)))


def as_shares(weights: Mapping[int, float], most: float) -> dict[int, float]:
    """Weights as shares of the most that there could be, 0 to 1, best first."""
    shares = {id_: min(1.0, weight / most) for id_, weight in weights.items()}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))
