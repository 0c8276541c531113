"""Decides which languages a text is written in: by its script, and among Latin ones by their commonest words."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

_SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "ko": re.compile("[\uac00-\ud7af\u1100-\u11ff]"),
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"),
    "ru": re.compile("[\u0400-\u04ff]"),
    "ar": re.compile("[\u0600-\u06ff]"),
    "el": re.compile("[\u0370-\u03ff]"),
    "he": re.compile("[\u0590-\u05ff]"),
    "hi": re.compile("[\u0900-\u097f]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
}
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_WORD = re.compile("[a-z\u00df-\u024f]+")
_COMMON_TEXT = """
en the of and to in is that for with are this be on as by or it from not you a an what how which who when where why
en did does can
de der die das und ist nicht ein eine zu den von mit für auf des im dem sich wird wie was wer wann welche wo
fr le la les et des est une du que dans pour qui pas sur au par avec sont ce quel quelle comment qui quand combien où
es el la los las y de que en un una es por con para del se no al su como cómo qué quién cuál cuánto dónde
it il lo la gli e di che un una è per con non del della sono si nel come al cosa chi quale quanto dove
pt o a os as e de que um uma é por com para do da não se em no na qual quem quanto onde como
nl de het een en van is dat niet op te zijn voor met die in aan wordt ook er bij wat wie hoe waar
"""
_COMMON: dict[str, set[str]] = {}
for _line in _COMMON_TEXT.split("\n")[1:-1]:
    _code, *_words = _line.split()
    _COMMON.setdefault(_code, set()).update(_words)
# A Chinese character says about as much as this many Latin letters.
_LETTERS_A_CHARACTER = 3
# Japanese mixes its syllables with Chinese characters; so much of them and it is no Chinese.
_KANA_SHARE = 0.1
# Passages are looked at again for every question that finds them; 2 MB.
_KEPT = 1_024
_PIECES, _PIECE_CHARS = 8, 1_500
# A language with fewer of the pieces is a quotation.
_LEAST_PIECES = 2


@lru_cache(_KEPT)
def language_of(text: str) -> str | None:
    """The language of most of `text`, as in ISO 639-1 ("en", "zh"); None where it has no letters."""
    counts = {code: len(script.findall(text)) * _LETTERS_A_CHARACTER for code, script in _SCRIPTS.items()}
    if counts["ja"] >= _KANA_SHARE * (counts["ja"] + counts["zh"]):
        counts["ja"] += counts.pop("zh")
    counts["latin"] = len(_LATIN.findall(text))
    most = max(counts, key=lambda code: counts[code])
    if not counts[most]:
        return None
    return _latin_language(text) if most == "latin" else most


def languages_of(text: str) -> tuple[str, ...]:
    """The languages of a long text, the one with most first; looks at some pieces of it."""
    if len(text) <= _PIECES * _PIECE_CHARS:
        starts = range(0, len(text), _PIECE_CHARS)
    else:
        starts = range(0, len(text) - _PIECE_CHARS + 1, (len(text) - _PIECE_CHARS) // (_PIECES - 1))
    seen = Counter(language_of(text[start : start + _PIECE_CHARS]) for start in starts)
    del seen[None]
    least = _LEAST_PIECES if seen.total() >= 2 * _LEAST_PIECES else 1
    return tuple(code for code, pieces in seen.most_common() if code is not None and pieces >= least)


def _latin_language(text: str) -> str:
    """English where no word tells, as most texts of names and figures are meant for readers of it."""
    words = Counter(_WORD.findall(text.casefold()))
    shares = {code: sum(words[word] for word in common) for code, common in _COMMON.items()}
    return max(shares, key=lambda code: shares[code])
