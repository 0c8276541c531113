"""Decides what is taken from CC-CEDICT, the packaged Chinese-English dictionary: words and senses that can be searched.

The dictionary is 124,000 lines of text. They become two tables in a file of their own, once, so that a question costs
a few look-ups and no memory. The file can be deleted at any time: it is made again.
"""

from __future__ import annotations

import gzip
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ingest.keywords import is_stopword, latin_words
from ingest.stems import stem

# Counts up where other tables, or other contents, come of the same dictionary.
FORMAT = 1
_ENTRY = re.compile(r"\S+ ([\u3400-\u4dbf\u4e00-\u9fff]+) \[[^\]]*\] /(.*)/\s*$")
_SENSES = re.compile("[/;]")
# Notes in a sense: "(coll.)", "[zhi1]"; senses that are notes as a whole: measure words, other spellings, names.
_NOTE = re.compile(r"\([^)]*\)|\[[^\]]*\]")
_ALL_NOTE = re.compile(r"CL:|(?:old |archaic )?variant of|see |also written|abbr\. for|used in|surname ")
# What dictionaries write for anything or anybody.
_PLACEHOLDERS = frozenset(["sth", "sb", "someone", "something", "one's", "esp", "etc", "fig", "lit", "abbr", "coll"])
# More words than that are an explanation, no sense.
_MOST_SENSE_WORDS = 6
_TABLES = """
CREATE TABLE senses (chinese TEXT, number INTEGER, word TEXT, PRIMARY KEY (chinese, number, word)) WITHOUT ROWID;
CREATE TABLE glosses (stems TEXT, chinese TEXT, PRIMARY KEY (stems, chinese)) WITHOUT ROWID;
"""


def sense_words(text: str) -> list[str]:
    """The words of an English sense or question that tell something, in order."""
    return [word for word in latin_words(text) if not is_stopword(word) and word not in _PLACEHOLDERS]


def gloss_key(words: list[str]) -> str:
    """What `glosses.stems` holds for a sense of these words."""
    return " ".join(map(stem, words))


def make(source: Path, target: Path) -> None:
    """Writes the tables of `source` (CC-CEDICT, gzip) to `target`; nobody ever sees a half of them."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    os.close(descriptor)
    try:
        with closing(sqlite3.connect(name)) as connection:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(_TABLES)
            with gzip.open(source, "rt", encoding="utf-8") as lines:
                _fill(connection, _entries(lines))
            connection.commit()
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _fill(connection: sqlite3.Connection, entries: Iterator[tuple[str, list[str]]]) -> None:
    senses: dict[str, set[frozenset[str]]] = {}
    for chinese, words in entries:
        known = senses.setdefault(chinese, set())
        if frozenset(words) in known:
            continue  # the same sense, of another reading of the word
        known.add(frozenset(words))
        rows = [(chinese, len(known), word) for word in words]
        connection.executemany("INSERT OR IGNORE INTO senses VALUES (?, ?, ?)", rows)
        connection.execute("INSERT OR IGNORE INTO glosses VALUES (?, ?)", (gloss_key(words), chinese))


def _entries(lines: Iterator[str]) -> Iterator[tuple[str, list[str]]]:
    """A Chinese word (simplified) and the telling words of one of its senses."""
    for line in lines:
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        for sense in _SENSES.split(entry[2]):
            sense = _NOTE.sub("", sense).strip()
            words = sense_words(sense)
            if words and len(words) <= _MOST_SENSE_WORDS and not _ALL_NOTE.match(sense):
                yield entry[1], words
