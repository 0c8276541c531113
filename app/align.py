"""Decides where a passage stands in another reading of the same document: by its words, where the layout differs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+")
_RUN = 4  # words of a run; a shorter one is found anywhere
_NEAR = 40  # words by which two runs of one passage may have moved against each other


class Text:
    """A text that passages are looked for in."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = [(match.group().lower(), *match.span()) for match in _WORD.finditer(text)]
        self._runs: dict[tuple[str, ...], list[int]] = defaultdict(list)
        words = [word for word, _, _ in self._words]
        for place in range(len(words) - _RUN + 1):
            self._runs[tuple(words[place : place + _RUN])].append(place)

    def find(self, passage: str, near: int) -> tuple[int, int]:
        """The span of `passage`, or of what most of its words are; (near, near) where nothing of it is there.

        Args:
            near: Which one is meant where there are several that are alike.
        """
        pattern = re.compile(r"\s+".join(re.escape(word) for word in passage.split()))
        spans = [match.span() for match in pattern.finditer(self.text)]
        if spans:
            return min(spans, key=lambda span: abs(span[0] - near))
        words = [match.group().lower() for match in _WORD.finditer(passage)]
        found = [
            (place - number, place)
            for number in range(len(words) - _RUN + 1)
            for place in self._runs.get(tuple(words[number : number + _RUN]), ())
        ]
        if not found:
            return near, near
        votes = Counter(shift // _NEAR for shift, _ in found)
        best = max(votes, key=lambda shift: (votes[shift], -shift))
        places = [place for shift, place in found if abs(shift // _NEAR - best) <= 1]
        return self._words[min(places)][1], self._words[max(places) + _RUN - 1][2]
