"""Decides which words of an answer and of a text are one: those with the same stem in the keyword index (Porter's).

"deletes", "deleted" and "deletion" are. Stems are asked of the index for many words at once, and kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from app.terms import MOST_KEPT, terms

_MOST_KEPT = 65_536
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")
# They only carry other words.
_LIGHT = frozenset({"get", "got"})


class _Forms:
    """The stems of words that came lately. Safe in threads: what is known is replaced, never changed."""

    def __init__(self) -> None:
        self._known: Mapping[str, str] = {}

    def of(self, words: Iterable[str]) -> Mapping[str, str]:
        """The stem of each of these words of ASCII letters, and of others."""
        # Imported late: it loads NumPy.
        from ingest.word_search import stems

        asked = set(words)
        missing = tuple(sorted(asked - self._known.keys()))
        if not missing:
            return self._known
        kept = self._known if len(self._known) + len(missing) <= _MOST_KEPT else {}
        missing = tuple(sorted(asked - kept.keys()))
        known = {**kept, **dict(zip(missing, stems(missing), strict=True))}
        self._known = known
        return known


_FORMS = _Forms()


def words_of(texts: Sequence[str]) -> list[Counter[str]]:
    """The terms of each text, with every form of an English word as one, and without words that only carry others."""
    found = [_found(text) for text in texts]
    forms = _FORMS.of(term for each in found for term in each if _has_forms(term))
    return [_counted(each, forms) for each in found]


def words(text: str) -> Counter[str]:
    """As `words_of`, for one text."""
    return words_of([text])[0]


@lru_cache(MOST_KEPT)
def _found(text: str) -> Counter[str]:
    """Words before their forms are one; nobody changes what is kept. Many people ask about the same pages."""
    return terms(_POSSESSIVE.sub("", text), str)


def _counted(found: Counter[str], forms: Mapping[str, str]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for term, count in found.items():
        counted[forms[term] if _has_forms(term) else term] += count
    return Counter({term: count for term, count in counted.items() if term not in _LIGHT})


def _has_forms(term: str) -> bool:
    return term.isascii() and term.isalpha()
