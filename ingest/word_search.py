"""Decides how much of a question's words each passage holds: BM25, from the lists that SQLite's keyword index keeps.

FTS5's own `bm25()` costs a microsecond a passage, since it looks up each one's length; a question of ordinary words
meets 50,000 of them in a base of 100,000. The same sum over whole lists takes a tenth of it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
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


def shares_of_words(
    connection: sqlite3.Connection, question: str, roster: Roster, allowed: Ids | None, limit: int
) -> dict[int, float]:
    """The share of the question's words, 0 to 1, of the `limit` passages with most of them; by id, best first.

    Args:
        allowed: Only these are ranked; how rare a word is goes by all.
    """
    words = question_words(question)[:_MOST_WORDS]
    if not words or not len(roster.ids):
        return {}
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
    if allowed is None:
        allowed = roster.ids
    candidates = allowed[weights[allowed] > 0.0]
    shares = np.minimum(1.0, weights[candidates] / most)
    return dict(ranked(candidates, shares, limit))


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
