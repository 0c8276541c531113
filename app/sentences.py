"""Decides where sentences begin and end, as spans of the text they come from (an answer's, or a stored paragraph's)."""

from __future__ import annotations

import re

Span = tuple[int, int]

# A full stop ends a sentence before white space; "3.5", "e.g." before a small letter and "bash.rc" do not.
_END = re.compile(r"[。！？；]+[”’」』）\]]*|[.!?]+[\"'”’)\]]*(?=\s+(?![a-z])|$)|\n\s*\n|\n(?=\s*(?:[-*•]|\d+[.)])\s)")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|fig|no|vol|dr|mr|mrs|ms|st|al|approx|sec|eq)|\b[a-z])\.$", re.IGNORECASE
)


def sentences(text: str) -> list[Span]:
    """Spans of the sentences, white space at the ends left out; together they hold every other character."""
    spans, start = [], 0
    for end in _END.finditer(text):
        if end.group().startswith(".") and _ABBREVIATION.search(text, start, end.start() + 1):
            continue
        spans.append((start, end.end()))
        start = end.end()
    spans.append((start, len(text)))
    return [span for span in (_strip(text, *span) for span in spans) if span[0] < span[1]]


def pieces(text: str, at_most: int) -> list[Span]:
    """Sentences, those longer than `at_most` characters cut at white space: what a quote is chosen from."""
    cut: list[Span] = []
    for start, end in sentences(text):
        while end - start > at_most:
            breaks = [match.start() for match in re.finditer(r"\s", text[start : start + at_most])]
            stop = start + (breaks[-1] if breaks and breaks[-1] > at_most // 2 else at_most)
            cut.append(_strip(text, start, stop))
            start = _strip(text, stop, end)[0]
        cut.append((start, end))
    return [span for span in cut if span[0] < span[1]]


def _strip(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
