"""Decides which words come with an answer's next ids: only whole characters, and the rest at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.tokenizer import Tokenizer


class Detokenizer:
    """The words of one answer, as its ids come; joined they are the words of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._given = ""

    def step(self, ids: Sequence[int]) -> str:
        """What these ids add; empty while a character is not whole."""
        self._ids += ids
        words = self._tokenizer.decode(self._ids)
        if words.endswith("\ufffd"):
            return ""
        return self._take(words)

    def finish(self) -> str:
        """What was held back."""
        return self._take(self._tokenizer.decode(self._ids))

    def _take(self, words: str) -> str:
        new, self._given = words[len(self._given) :], words
        return new
