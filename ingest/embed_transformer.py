"""Decides how any model in sentence-transformers' layout embeds; the one home of sentence-transformers and torch.

A packaged model's tokenizer is read by itself, in milliseconds, so that texts can be split while nobody has waited for
torch yet; the model is loaded with the first text that is embedded.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ingest.cores import num_cores, over_cores
from ingest.document import IngestError
from ingest.embed import BatchDone, Vectors
from ingest.loading import uncollected
from ingest.scale import Scale

# Small: each is as long as its longest text, and every core has one of its own.
_BATCH = 8
_HUB_ANSWERS_WITHIN_S = 6.0
_HUB_NAME = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*", re.ASCII)
# These were trained on English; hub models chosen by name are taken to read what they were chosen for.
ENGLISH_ONLY = frozenset({"minilm", "mpnet"})
# Those were trained alike, and so were all of their kinds. E5's cosines lie close together. Of a model that was not
# measured here, what most of them have.
_MINILM = Scale(unlike=0.0, evidence=0.33, alike=0.40)
_E5 = Scale(unlike=0.75, evidence=0.80, alike=0.88)
_OTHERS = Scale(unlike=0.0, evidence=0.50, alike=0.65)
_PLAIN_MODULES = ["Transformer", "Pooling", "Normalize"]


@dataclass(frozen=True)
class _Shape:
    """What has to be known of a model before a text is split."""

    tokenizer: Any
    dimension: int
    max_seq_length: int


class TransformerEmbedder:
    """Obeys `ingest.embed.Embedder`.

    Args:
        name: What the index keeps.
        source: A folder or a hub id.
        offline: True where the network is not asked.
        threads: On how many cores it embeds; None: on all.
    """

    def __init__(self, name: str, source: str, *, offline: bool, threads: int | None = None) -> None:
        self.name = name
        self._scale = _scale_of(name.lower())
        self._source, self._offline = source, offline
        self._threads = threads or num_cores()
        self._lock = threading.Lock()
        self._model: Any = None
        self._shape = _shape_of_folder(Path(source)) or self._shape_of_model()
        # E5 models were trained with a word before each text and are much worse without it.
        self._question_prefix, self._passage_prefix = ("query: ", "passage: ") if "e5" in name.lower() else ("", "")

    @property
    def dimension(self) -> int:
        return self._shape.dimension

    @property
    def max_tokens(self) -> int:
        specials = self._shape.tokenizer.num_special_tokens_to_add(is_pair=False)
        prefix = len(self._shape.tokenizer.encode(self._passage_prefix, add_special_tokens=False).ids)
        return self._shape.max_seq_length - int(specials) - prefix

    def scale(self, text: str) -> Scale | None:
        return self._scale if self._reads(text) else None

    def count_tokens(self, text: str) -> int:
        return len(self._shape.tokenizer.encode(text, add_special_tokens=False).ids)

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        # Long and short texts in separate batches: a batch costs as much as its longest text.
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        batches = [tuple(order[start : start + _BATCH]) for start in range(0, len(order), _BATCH)]
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        done = 0
        self._loaded_model()
        for batch, made in over_cores(
            lambda batch: self._encode([self._passage_prefix + texts[at] for at in batch]),
            batches,
            self._threads,
            _keep_to_one_core,
        ):
            vectors[list(batch)] = made
            done += len(batch)
            if batch_done:
                batch_done(done, len(order))
        return vectors

    def embed_question(self, text: str) -> Vectors:
        # One core for one short text: where many ask at once, cores that wait for each other cost twenty times as much.
        _keep_to_one_core()
        return self._encode([self._question_prefix + text]).reshape(self.dimension)

    def _reads(self, text: str) -> bool:
        return self.name not in ENGLISH_ONLY or sum(letter.isascii() for letter in text) >= 0.7 * len(text)

    def _encode(self, texts: list[str]) -> Vectors:
        """What the library's own `encode` does, save that threads may do it side by side."""
        import torch

        model = self._loaded_model()
        with self._lock:  # its tokenizer serves one at a time
            features = model.preprocess(texts)
        with torch.inference_mode(), _short_floats():
            made = torch.nn.functional.normalize(model(features)["sentence_embedding"].float(), dim=1)
        return np.asarray(made.numpy(), dtype=np.float32)

    def _loaded_model(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = _loaded(self.name, self._source, self._offline)
            return self._model

    def _shape_of_model(self) -> _Shape:
        from tokenizers import Tokenizer

        model = self._loaded_model()
        tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
        return _Shape(_uncut(tokenizer), int(model.get_embedding_dimension()), int(model.max_seq_length))


def _scale_of(name: str) -> Scale:
    if name.rpartition("/")[2].removeprefix("all-").startswith(tuple(ENGLISH_ONLY)):
        return _MINILM
    return _E5 if "e5" in name else _OTHERS


def _shape_of_folder(folder: Path) -> _Shape | None:
    """Read from a folder's own descriptions; None where it is none, or its model is not of the plain kind."""
    from tokenizers import Tokenizer

    try:
        modules = [module["type"].rpartition(".")[2] for module in _json(folder / "modules.json")]
        if modules != _PLAIN_MODULES[: len(modules)] or len(modules) < 2:
            return None
        pooling = _json(folder / _json(folder / "modules.json")[1]["path"] / "config.json")
        limit = int(_json(folder / "sentence_bert_config.json")["max_seq_length"])
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        return _Shape(_uncut(tokenizer), int(pooling["word_embedding_dimension"]), limit)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _uncut(tokenizer: Any) -> Any:
    """Without truncation, so that texts over the limit can be seen."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _keep_to_one_core() -> None:
    import torch

    torch.set_num_threads(1)


def _short_floats() -> contextlib.AbstractContextManager[Any]:
    """bfloat16 where the processor multiplies it itself: 2.5 times as fast, and vectors within a cosine of 0.9999."""
    import torch

    return torch.autocast("cpu", dtype=torch.bfloat16) if _are_short_floats_quick() else contextlib.nullcontext()


def _are_short_floats_quick() -> bool:
    import torch

    can: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(can.get("avx512_bf16") or can.get("amx_bf16"))


def _shorten_weights(model: Any) -> None:
    """What is multiplied in bfloat16 is kept so: making it from float32 at each question took a fifth of its time."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.to(torch.bfloat16)


def _loaded(name: str, source: str, offline: bool) -> Any:
    try:
        with uncollected():
            from sentence_transformers import SentenceTransformer
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
        if not Path(source).is_dir() and not _HUB_NAME.fullmatch(source):
            raise ValueError("no name of a model")  # the library would warn of it first
        try:
            with uncollected():  # its classes are imported here
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
    if _are_short_floats_quick():
        _shorten_weights(model)
    return model.eval()


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
