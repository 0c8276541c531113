"""Decides how well passages hold the things that a question asks about, whatever words they use for them.

Probabilistic structured queries (Darwish and Oard, 2003) over BM25: the words that may stand for one thing count
together as one word, each by its share, so that a word with many translations weighs no more than one with a single.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.bm25 import K1, as_shares, rarity, sqlite_rarity
from ingest.dictionary import Concept
from ingest.index import Ids
from ingest.keywords import keywords

_MARK = re.compile("[-']")


def by_concepts(connection: sqlite3.Connection, concepts: Sequence[Concept], allowed: Ids | None) -> dict[int, float]:
    """The share of the concepts by passage id, 0 to 1, best first.

    Args:
        allowed: Only these passages may be found; how rare a word is goes by all. None: all.
    """
    may_be = None if allowed is None else set(allowed.tolist())
    total = connection.execute("SELECT count(*) FROM passages").fetchone()[0]
    weights: dict[int, float] = defaultdict(float)
    most = 0.0
    for concept in concepts:
        stated = [one for word, share in concept.words if (one := _stated(connection, word, share)) is not None]
        all_shares = sum(one.share for one in stated)
        if not stated:
            continue  # nothing in the base stands for it: it can't tell one passage from another
        weight = rarity(total, sum(one.having * one.share for one in stated) / all_shares)
        most += weight * (K1 + 1)
        times: dict[int, float] = defaultdict(float)
        for one in stated:
            for id_, score in connection.execute(
                "SELECT rowid, -bm25(keywords) FROM keywords WHERE keywords MATCH ?", (one.expression,)
            ):
                if may_be is not None and id_ not in may_be:
                    continue
                times[id_] += one.share / all_shares * _times(score / sqlite_rarity(total, one.having))
        for id_, count in times.items():
            weights[id_] += weight * (K1 + 1) * count / (1 + count)
    return as_shares(weights, most)


@dataclass(frozen=True)
class _Stated:
    """A word that stands in the base.

    Attributes:
        share: Of the concept's senses.
        expression: What SQLite's keyword index is asked for. It knows the forms of English words.
        having: In how many passages it stands.
    """

    share: float
    expression: str
    having: int


def _stated(connection: sqlite3.Connection, word: str, share: float) -> _Stated | None:
    # A word with a hyphen is its parts, a Chinese one its pairs of characters, one after the other.
    pieces = _MARK.split(word) if word.isascii() else keywords(word)
    expression = f'"{" ".join(pieces)}"'
    found = connection.execute("SELECT count(*) FROM keywords WHERE keywords MATCH ?", (expression,)).fetchone()
    return _Stated(share, expression, int(found[0])) if found[0] else None


def _times(score: float) -> float:
    """How often a word stands in a passage, by the passage's length: what BM25 made `score` of."""
    return score / max(1e-6, K1 + 1 - score)
