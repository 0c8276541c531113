"""Decides where a sentence ends, in Latin and in Chinese, Japanese and Korean writing, without a model or a word list.

Spans are given, never copies: laid end to end they cover every character that is not white space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Scripts written without spaces; one character weighs about half an English word.
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
_ENDS = re.compile(
    r"""[。！？；…]+["'”’』」）)\]]*        # full-width: ends wherever it stands
      | [.!?]+["'”’)\]]*(?=\s+[^\sa-z])   # half-width: ends before white space and something not in lower case
      | \n[ \t\r]*\n                      # an empty line
    """,
    re.VERBOSE,
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[])(?:[A-Z]|e\.g|i\.e|cf|vs|al|etc|Dr|Mr|Mrs|Ms|Prof|St|No|Nos|Fig|Figs|Eq|Eqs|Sec|Ch|Vol|pp?|approx)\.$"
)


def sentence_spans(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each sentence in `text[start:end]`, white space around it left out."""
    end = len(text) if end is None else end
    begin = start
    for match in _ENDS.finditer(text, start, end):
        if match.group()[0] == "." and _ABBREVIATION.search(text, max(begin, match.start() - 8), match.start() + 1):
            continue
        yield from trimmed(text, begin, match.end())
        begin = match.end()
    yield from trimmed(text, begin, end)


def trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields `text[start:end]` without the white space at its ends, or nothing where nothing else is there."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


_WEIGHED = re.compile(rf"[{CJK}]|[^\s{CJK}]+")


def weight(text: str) -> float:
    """How long `text` is to a reader, in English words; a Chinese or Japanese character counts 0.55."""
    return sum(0.55 if len(word) == 1 and _is_cjk(word) else 1.0 + len(word) // 24 for word in _WEIGHED.findall(text))


_CJK_CHARACTER = re.compile(rf"[{CJK}]")


def _is_cjk(character: str) -> bool:
    return _CJK_CHARACTER.match(character) is not None


def shorter_spans(text: str, start: int, end: int, most: float) -> Iterator[tuple[int, int]]:
    """Cuts a span that weighs more than `most`: at line ends, else at clauses, else at spaces, else anywhere."""
    if weight(text[start:end]) <= most:
        yield from trimmed(text, start, end)
        return
    for pattern in (r"\n", r"[，、,;:：]", r"\s"):
        cut = _middle(text, start, end, pattern)
        if cut is not None:
            break
    else:
        cut = (start + end) // 2
    yield from shorter_spans(text, start, cut, most)
    yield from shorter_spans(text, cut, end, most)


def _middle(text: str, start: int, end: int, pattern: str) -> int | None:
    """The end of the match nearest to the middle of the span, within its middle three fifths; None if there is none."""
    middle, reach = (start + end) // 2, (end - start) * 3 // 10
    found = re.compile(pattern)
    cuts = [match.end() for match in found.finditer(text, middle - reach, middle + reach)]
    cuts = [cut for cut in cuts if start < cut < end]
    return min(cuts, key=lambda cut: abs(cut - middle), default=None)
