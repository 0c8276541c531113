"""Decides which passages of a document are embedded: those whose text has no vector yet.

What an edit left as it was keeps its vector. Vectors are looked up where the documents are: nothing is kept of a text
that was removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ingest.embed import BatchDone, Embedder, Vectors


def embed_new(
    embedder: Embedder, texts: Sequence[str], known: Mapping[str, Vectors], batch_done: BatchDone | None = None
) -> Vectors:
    """Gives an array of shape (len(texts), dimension), as `embedder.embed_passages` does; embeds each new text once.

    Args:
        known: By text, vectors of shape (dimension,) that this embedder made.
    """
    new = list(dict.fromkeys(text for text in texts if text not in known))
    made = dict(zip(new, embedder.embed_passages(new, batch_done), strict=True)) if new else {}
    vectors = np.zeros((len(texts), embedder.dimension), dtype=np.float32)
    for row, text in enumerate(texts):
        vectors[row] = made[text] if text in made else known[text]
    return vectors
