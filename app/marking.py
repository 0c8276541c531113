"""Decides how much of a passage that a search found is shown, and which of its words are marked as the question's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.terms import CJK, terms

AROUND_CHARACTERS = 240
# Where no blank is nearer, as in Chinese, a cut falls where it falls.
_LONG_WORD = 24
_SIGNS = re.compile(r"^[ \t]{0,3}(?:#{1,6}[ \t]+|(?=[^\n]*---)[ \t|:-]+$)", re.MULTILINE)
_BOLD = re.compile(r"(?<![\w*])\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*(?![\w*])")
_RUN = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+(?:[-_.'/@:+][^\W_{CJK}]+)*")

Span = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    text: str
    marked: bool


def marked(text: str, question: str) -> tuple[Piece, ...]:
    """`text` around its first word of the question, cut to what one reads at a glance, such words marked."""
    text = _folded(_without_signs(text))
    spans = tuple(_spans(text, frozenset(terms(question))))
    first = max(0, (spans[0][0] if spans else 0) - AROUND_CHARACTERS)
    return _cut(text, spans, first, first + 3 * AROUND_CHARACTERS)


def window(text: str, question: str, characters: int = AROUND_CHARACTERS) -> tuple[Piece, ...]:
    """About so many `characters` of `text`, where most different words of the question stand; such words marked."""
    text = _folded(_without_signs(text))
    spans = tuple(_spans(text, frozenset(terms(question))))
    before = characters // 6

    def told(start: int) -> int:
        within = [text[first:last].casefold() for first, last in spans if start <= first and last <= start + characters]
        return len(set(within))

    starts = [max(0, min(first - before, len(text) - characters)) for first, _ in spans]
    first = max(starts, key=told, default=0)
    return _cut(text, spans, first, first + characters)


def whole(text: str, question: str) -> tuple[Piece, ...]:
    """All of `text`, its words of the question marked."""
    text = _folded(text)
    return _cut(text, tuple(_spans(text, frozenset(terms(question)))), 0, len(text))


def _without_signs(text: str) -> str:
    """`text` at a glance: without Markdown's headings, bold type and the line under a table's head."""
    return _BOLD.sub(r"\1", _SIGNS.sub("", text))


def _folded(text: str) -> str:
    return " ".join(text.replace("\f", " ").split())


def _cut(text: str, spans: Sequence[Span], first: int, last: int) -> tuple[Piece, ...]:
    """About from `first` to `last`, in whole words, with a sign where something was left out."""
    if last < len(text):
        last = max(text.rfind(" ", last - _LONG_WORD, last + 1), 0) or last
    first = text.rfind(" ", max(0, first - _LONG_WORD), first) + 1 or first
    pieces, at = [Piece("… ", False)] if first else [], first
    for start, end in spans:
        if at <= start and end <= last:
            pieces += [Piece(text[at:start], False), Piece(text[start:end], True)]
            at = end
    pieces.append(Piece(text[at:last] + (" …" if last < len(text) else ""), False))
    return tuple(piece for piece in pieces if piece.text)


def _spans(text: str, wanted: frozenset[str]) -> Iterator[Span]:
    for run in _RUN.finditer(text):
        if re.match(f"[{CJK}]", run[0]) is None:
            if wanted & set(terms(run[0])):
                yield run.span()
            continue
        start, end = -1, -1
        for at in range(run.start(), run.end() - 1):
            if text[at : at + 2] not in wanted:
                continue
            if at > end:  # pairs that touch are one stretch
                if start >= 0:
                    yield start, end
                start = at
            end = at + 2
        if start >= 0:
            yield start, end
