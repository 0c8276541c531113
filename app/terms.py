"""Decides what two pieces of text have in common: words, numbers and Chinese, Japanese or Korean pairs of characters.

Used to check an answer against what was read, never to search (that is `ingest`).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"

# Measured on the Chinese answers of a 0.5B model: with joints at half and without pairs of grammar 26 of 31 right ones
# find their paragraph (20 before), and none of 8 invented ones does, as before. With numerals in digits (45 for 四十五)
# it is two fewer.
JOINT_WEIGHT = 0.5

# Pieces of documents whose terms are kept: some 20 MB.
MOST_KEPT = 2_048

_CJK_RUN = re.compile(f"[{CJK}]+")
_WORD = re.compile(rf"[^\W_{CJK}]+(?:[-_.'/@:+][^\W_{CJK}]+)*[#+]*|_+\w+", re.UNICODE)
_PART = re.compile(r"[-_.'/@:+]+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")

# Words that carry no fact; a sentence of nothing else supports nothing.
STOP = frozenset(
    """
    a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it its
    may might more most must no nor not of on or other our shall she should so such than that the their them then there
    these they this those to under used use uses using was we were what when where which while who whose why will with
    within would you your also called according answer document paragraph section text states stated mentioned provided
    given based following yes
    """.split()  # noqa: SIM905, a text reads better than a list
)
STOP_PAIRS = frozenset(
    """
    一个 根据 据文 文档 文中 段落 内容 提到 大约 什么 哪个 哪些 哪里 多少 几个 如何 怎么 怎样 为什 需要
    """.split()  # noqa: SIM905, a text reads better than a list
)
# Of grammar alone: a pair with one of them is no word. More of them cost sections (`app.plan`): 133 right, not 135.
_GRAMMAR = re.compile("[的了是在和与及或]")
NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())  # noqa: SIM905, a sentence reads better than a list
}


def has_cjk(text: str) -> bool:
    return _CJK_RUN.search(text) is not None


def fold(text: str) -> str:
    """White space runs as one space, ends stripped; the form in which quotes are compared with pages."""
    return " ".join(text.split())


def normal(text: str) -> str:
    """One spelling: ligatures, full width, case, soft hyphens, thousands commas and line-end hyphens folded."""
    text = unicodedata.normalize("NFKC", text).replace("\u00ad", "").casefold()
    text = re.sub(r"(?<=[^\W\d_])-\s*\n\s*(?=[^\W\d_])", "", text)
    return _THOUSANDS.sub("", text)


def cut(word: str) -> str:
    """The word without its English ending, in no time. Other stems cost sections (`app.plan`)."""
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4 and word.isalpha() and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def terms(text: str, stem: Callable[[str], str] = cut) -> Counter[str]:
    """What can be compared: stemmed words (compounds also in parts), numbers, CJK pairs (a lone character itself)."""
    found: Counter[str] = Counter()
    text = normal(text)
    for word in _WORD.findall(text):
        parts = [part for part in _PART.split(word) if part]
        for part in {word, *parts}:
            if part not in STOP or part in NUMBER_WORDS:
                found[NUMBER_WORDS.get(part) or stem(part)] += 1
    for run in _CJK_RUN.findall(text):
        parts = _GRAMMAR.split(run)
        pairs = [part[i : i + 2] for part in parts for i in range(len(part) - 1)] or [part for part in parts if part]
        found.update(pair for pair in pairs if pair not in STOP_PAIRS)
    return found


@lru_cache(MOST_KEPT)
def kept_terms(text: str) -> frozenset[str]:
    """As `terms`, for what is compared again and again: many people ask about the same pages."""
    return frozenset(terms(text))


def rarity(texts: Iterable[Iterable[str]]) -> Mapping[str, float]:
    """Weights by how few of `texts` (as terms) hold a term; at least 0.2. A term that none holds weighs most."""
    seen: Counter[str] = Counter()
    count = 0
    for found in texts:
        seen.update(set(found))
        count += 1
    return _Rarity({term: _weight(count, times) for term, times in seen.items()}, _weight(count, 0))


class _Rarity(dict[str, float]):
    def __init__(self, weights: Mapping[str, float], unseen: float) -> None:
        super().__init__(weights)
        self._unseen = unseen

    def __missing__(self, term: str) -> float:
        return self._unseen


def _weight(count: int, times: int) -> float:
    return max(0.2, math.log((count + 1) / (times + 0.5)))


def support(claim: Iterable[str], text: Iterable[str], weights: Mapping[str, float]) -> float:
    """How much of `claim` stands in `text`, 0 to 1, by weight. 0 where the claim has no terms.

    One other word costs a Chinese claim three pairs, two of them joints with words that stand there: those count half.
    """
    wanted, held = set(claim), set(text)
    found = wanted & held
    characters = {character for term in found if has_cjk(term) for character in term}
    told = sum(weights[term] for term in found)
    missing = sum(weights[term] * (1.0 if characters.isdisjoint(term) else JOINT_WEIGHT) for term in wanted - held)
    return told / (told + missing) if told else 0.0
