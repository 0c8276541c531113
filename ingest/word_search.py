"""Decides how much of a question's words each passage holds: BM25, from the lists that SQLite's keyword index keeps.

FTS5's own `bm25()` costs a microsecond a passage, since it looks up each one's length; a question of ordinary words
meets 50,000 of them in a base of 100,000. The same sum over whole lists takes a tenth of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ingest.bm25 import K1, rarity
from ingest.database import KEYWORDS_KIND
from ingest.index import Ids, ranked
from ingest.keywords import is_single, question_words
from ingest.roster import Roster

_MOST_WORDS = 64
_B = 0.75  # as in SQLite's bm25()
_LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True)
class WordShares:
    """The share of a question's words, 0 to 1, that each passage holds: a place for each id up to the highest."""

    by_id: npt.NDArray[np.float64]

    def best(self, limit: int, allowed: Ids | None) -> dict[int, float]:
        """Of the `limit` passages with most of them, of `allowed` (None: of all); by id, best first; none without."""
        candidates = np.flatnonzero(self.by_id)
        if allowed is not None:
            candidates = allowed[allowed < len(self.by_id)]
            candidates = candidates[self.by_id[candidates] > 0.0]
        return dict(ranked(candidates, self.by_id[candidates], limit))

    def of(self, ids: Iterable[int]) -> dict[int, float]:
        """Of these passages, by id, best first; none without."""
        asked = np.fromiter(ids, dtype=np.int64)
        asked = np.unique(asked[asked < len(self.by_id)])
        return self.best(len(asked), asked)


def shares_of_words(connection: sqlite3.Connection, question: str, roster: Roster) -> WordShares:
    """How much of the question's words each passage holds; how rare a word is goes by all of them."""
    words = question_words(question)[:_MOST_WORDS]
    if not words or not len(roster.ids):
        return WordShares(np.zeros(0))
    weights = np.zeros(len(roster.document))
    most = 0.0
    for word, stem in zip(words, stems(tuple(words)), strict=True):
        ids, times = _places(connection, stem, is_beginning=is_single(word))
        known = ids < len(weights)  # a roster of another state may lack some
        ids, times = ids[known], times[known]
        weight = rarity(len(roster.ids), len(ids))
        most += weight * (K1 + 1)
        length = roster.num_words[ids] / roster.mean_words
        weights[ids] += weight * (K1 + 1) * times / (times + K1 * (1 - _B + _B * length))
    shares = np.zeros(len(weights))
    shares[roster.ids] = np.minimum(1.0, weights[roster.ids] / most)
    return WordShares(shares)


def _places(connection: sqlite3.Connection, stem: str, *, is_beginning: bool) -> tuple[Ids, npt.NDArray[np.int64]]:
    """The passages that hold a word, and how many times each."""
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_places USING fts5vocab(main, keywords, instance)")
    last = stem + _LAST_CHARACTER if is_beginning else stem
    row = connection.execute(
        "SELECT group_concat(doc) FROM temp.word_places WHERE term >= ? AND term <= ?", (stem, last)
    ).fetchone()
    if not row[0]:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    every = np.fromstring(row[0], dtype=np.int64, sep=",")
    if is_beginning:
        return np.unique(every, return_counts=True)
    first = np.flatnonzero(np.diff(every, prepend=-1))  # a word's list is in order
    return every[first], np.diff(first, append=len(every))


@lru_cache(maxsize=1_024)
def stems(words: tuple[str, ...]) -> tuple[str, ...]:
    """What the keyword index keeps in place of each word: asked of an index of the same kind."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE given USING {KEYWORDS_KIND}")
        connection.execute("CREATE VIRTUAL TABLE kept USING fts5vocab(given, instance)")
        connection.executemany("INSERT INTO given (rowid, words) VALUES (?, ?)", enumerate(words))
        found = dict(connection.execute("SELECT doc, term FROM kept"))
    return tuple(found.get(number, word) for number, word in enumerate(words))
