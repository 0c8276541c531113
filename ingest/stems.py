"""Decides which English words are forms of one another: those with the same Snowball stem ("votes", "voting", "vote")."""

from __future__ import annotations

from functools import cache, lru_cache
from os.path import commonprefix
from typing import Any

# Forgetting the oldest costs some microseconds each; the words of a dictionary are about as many.
_MOST_KEPT = 65_536


@lru_cache(_MOST_KEPT)
def stem(word: str) -> str:
    """The stem of a folded word; the word itself where it is not of Latin letters alone."""
    if not (word.isascii() and word.isalpha()):
        return word
    return str(_stemmer().stem(word))


def beginning(word: str) -> str:
    """What all forms of `word` begin with that could share its stem ("voting": "vot")."""
    return commonprefix([word, stem(word)])


@cache
def _stemmer() -> Any:
    # Imported late: it loads half of scikit-learn.
    from nltk.stem.snowball import SnowballStemmer

    return SnowballStemmer("english")
