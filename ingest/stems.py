"""Decides which English words are forms of one another: those with the same Snowball stem ("vote", "voting")."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

# Forgetting the oldest costs some microseconds each; the words of a dictionary are about as many.
_MOST_KEPT = 65_536


@lru_cache(_MOST_KEPT)
def stem(word: str) -> str:
    """The stem of a folded word; the word itself where it is not of Latin letters alone."""
    if not (word.isascii() and word.isalpha()):
        return word
    return str(_stemmer().stem(word))


@cache
def _stemmer() -> Any:
    # Imported late: it loads half of scikit-learn.
    from nltk.stem.snowball import SnowballStemmer  # type: ignore[import-untyped]  # ships without types

    return SnowballStemmer("english")
