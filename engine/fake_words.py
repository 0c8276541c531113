"""Decides what the fake says: the words it was given, or words that follow from the prompt, with their ids."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable

from engine.base import Prompt
from engine.tokenizer import Tokenizer

Answers = Callable[[Prompt], str] | Iterable[str]
Script = list[tuple[str, int]]
"""(words, id) for each token; a word of several ids comes with its last."""

_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "sigma")
_NUM_INVENTED_WORDS = 12


class Words:
    """The answers to come.

    Args:
        tokenizer: Gives words their ids; without it the ids are invented too.
        answers: A function of the prompt, or texts in order (the last one is not repeated: then words are invented).
    """

    def __init__(self, tokenizer: Tokenizer | None, answers: Answers | None) -> None:
        self._tokenizer = tokenizer
        self._answer = answers if callable(answers) else None
        self._queued = deque(() if answers is None or callable(answers) else answers)

    def enqueue(self, answers: Iterable[str]) -> None:
        self._queued.extend(answers)

    @property
    def end(self) -> Script:
        """An answer that says nothing."""
        return [("", self._tokenizer.turn_end if self._tokenizer is not None else 2)]

    def script(self, prompt: Prompt) -> Script:
        if self._answer is not None:
            text = self._answer(prompt)
        elif self._queued:
            text = self._queued.popleft()
        else:
            text = _invent(prompt)
        pieces = _split_words(text)
        said = [(piece if last else "", token) for piece in pieces for last, token in self._encode(piece)]
        return [*said, *self.end]

    def _encode(self, piece: str) -> list[tuple[bool, int]]:
        """The piece's ids; the words come with the last of them."""
        if self._tokenizer is not None:
            ids = self._tokenizer.encode_text(piece)
        else:
            ids = (int.from_bytes(hashlib.sha256(piece.encode()).digest()[:2], "big") + 16,)
        return [(number == len(ids) - 1, token) for number, token in enumerate(ids)]


def _invent(prompt: Prompt) -> str:
    digest = hashlib.sha256(repr(prompt.token_ids).encode()).digest()
    return " ".join(_WORDS[byte % len(_WORDS)] for byte in digest[:_NUM_INVENTED_WORDS]).capitalize() + "."


def _split_words(text: str) -> list[str]:
    """Words with the blank before them; joined they give `text`."""
    pieces: list[str] = []
    for index, word in enumerate(text.split(" ")):
        pieces.append(word if index == 0 else f" {word}")
    return [piece for piece in pieces if piece]
