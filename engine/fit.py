"""Decides what fits: memory less weights less what a step needs is the pool of keys and values; from that, documents.

Held against what vLLM reports itself: exact on a CPU, within 1 % on the GPU that was measured (`tests/gpu`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base import EngineError
from engine.card import GIB, memory_of_machine_gib, read_card
from engine.profiles import KvCacheDtype, Profile
from engine.shape import ModelShape, read_shape

if TYPE_CHECKING:
    from engine.server import EngineSettings

# What the CUDA libraries take beside PyTorch: what was left of an H200's report (853,056 tokens) after all else.
_LIBRARY_BYTES = int(0.27 * GIB)
# Captured graphs. vLLM 0.26 leaves them out of its account and later versions estimate them, so this errs to the safe
# side there: a third of a per cent of an H200's pool.
_GRAPH_BYTES = int(0.4 * GIB)
_MOST_GIB = 2.0**20


@dataclass(frozen=True)
class Pool:
    """The keys and values that are kept, in whole blocks. One block is vLLM's own and never holds a token."""

    num_blocks: int
    block_size: int
    bytes_per_token: int

    @property
    def num_tokens(self) -> int:
        """As vLLM reports it: its own block counted in."""
        return self.num_blocks * self.block_size

    @property
    def num_bytes(self) -> int:
        return self.num_tokens * self.bytes_per_token

    @property
    def longest_context(self) -> int:
        """Tokens of the longest prompt and answer that fit alone."""
        return max(0, self.num_blocks - 1) * self.block_size

    def num_documents(self, num_tokens: int) -> int:
        """How many documents of that length stay warm, one more document's worth kept free for questions and answers.

        Args:
            num_tokens: Of one document; at least 1.
        """
        blocks_each = math.ceil(num_tokens / self.block_size)
        return max(0, (self.num_blocks - 1) // blocks_each - 1)

    def longest_document(self, num_documents: int) -> int:
        """Tokens that each of so many documents may have at most to stay warm together."""
        return max(0, self.num_blocks - 1) // (num_documents + 1) * self.block_size


@dataclass(frozen=True)
class Fit:
    """A model on a machine.

    Attributes:
        memory_bytes: Of the card as a program sees it, or of this machine.
        usable_bytes: The share of it that vLLM may take; None where the pool's size was given.
        step_bytes: Beside weights and pool: libraries, one step at its largest, captured graphs. 0 on a CPU.
        pool_bytes: What is left for keys and values, or was given; may be negative.
    """

    shape: ModelShape
    profile: Profile
    kv_cache_dtype: KvCacheDtype
    block_size: int
    memory_bytes: int
    usable_bytes: int | None
    weight_bytes: int
    step_bytes: int
    pool_bytes: int

    @property
    def pool(self) -> Pool:
        bytes_per_token = self.shape.kv_bytes_per_token(self.kv_cache_dtype)
        num_blocks = max(0, self.pool_bytes // (bytes_per_token * self.block_size))
        return Pool(num_blocks, self.block_size, bytes_per_token)

    @property
    def in_fp8(self) -> Fit:
        return replace(self, kv_cache_dtype="fp8")

    @property
    def max_model_len(self) -> int:
        """The profile's, or what the model reads or the pool holds where that is less."""
        return min(
            self.profile.max_model_len, self.pool.longest_context, self.shape.context or self.profile.max_model_len
        )

    def refuse_context(self, num_tokens: int) -> None:
        """Raises EngineError `does_not_fit` where prompt and answer of so many tokens do not fit the pool alone."""
        self._refuse_no_room()
        pool = self.pool
        if num_tokens > pool.longest_context:
            needed = num_tokens * pool.bytes_per_token / GIB
            raise EngineError(
                "does_not_fit",
                f"A context of {num_tokens:,} tokens needs {needed:.1f} GiB for keys and values and "
                f"{pool.num_bytes / GIB:.1f} GiB are there; at most {pool.longest_context:,} tokens fit"
                f"{self._fp8_words(f'{self.in_fp8.pool.longest_context:,}')}: choose a shorter context "
                f"(max_model_len) or {self._more_words}.",
            )

    def refuse_documents(self, num_documents: int, num_tokens: int) -> None:
        """Raises EngineError `does_not_fit` where so many documents of that length do not stay warm together."""
        self._refuse_no_room()
        pool = self.pool
        fitting = pool.num_documents(num_tokens)
        if num_documents > fitting:
            raise EngineError(
                "does_not_fit",
                f"{num_documents:,} documents of {num_tokens:,} tokens, and room for one more to answer in, are more "
                f"than the {pool.longest_context:,} tokens that fit; {fitting:,} such documents stay warm"
                f"{self._fp8_words(f'{self.in_fp8.pool.num_documents(num_tokens):,}')}"
                f"{self._shorter_words(num_documents)}.",
            )

    def refuse_memory(self) -> None:
        """Raises EngineError `does_not_fit` where weights and pool are more than the memory that is there."""
        self._refuse_no_room()
        needed = self.weight_bytes + self.step_bytes + self.pool_bytes
        if self.usable_bytes is None and needed > self.memory_bytes:
            left = max(0, self.memory_bytes - self.weight_bytes - self.step_bytes)
            raise EngineError(
                "does_not_fit",
                f"{self._held_words} and {self.pool_bytes / GIB:.1f} GiB of keys and values are more than the "
                f"{self.memory_bytes / GIB:.1f} GiB of memory; give the cache at most "
                f"{math.floor(left / GIB * 10) / 10:.1f} GiB (kv_cache_gib), or choose a smaller model.",
            )

    def _refuse_no_room(self) -> None:
        if self.pool.num_blocks >= 2:
            return
        room = self.memory_bytes if self.usable_bytes is None else self.usable_bytes
        raise EngineError(
            "does_not_fit",
            f"{self._held_words} leave no room for keys and values in {room / GIB:.1f} GiB; "
            "choose a smaller model, quantised weights (quantization) or a larger GPU.",
        )

    @property
    def _held_words(self) -> str:
        return f"{self.weight_bytes / GIB:.1f} GiB of weights and {self.step_bytes / GIB:.1f} GiB to compute in"

    def _fp8_words(self, what: str) -> str:
        return "" if self.kv_cache_dtype == "fp8" else f" ({what} in fp8)"

    def _shorter_words(self, num_documents: int) -> str:
        longest = self.pool.longest_document(num_documents)
        return f", or {num_documents:,} of {longest:,} tokens" if longest else ""

    @property
    def _more_words(self) -> str:
        return "give the cache more memory (kv_cache_gib)" if self.usable_bytes is None else "take a larger GPU"


def fit(settings: EngineSettings, profile: Profile, shape: ModelShape, memory_bytes: int) -> Fit:
    """What is left for keys and values. Explicit settings come before the profile's.

    Args:
        memory_bytes: Of the card as a program sees it; on a CPU, of the machine.

    Raises:
        EngineError: `shape_unknown` for a quantisation whose size is not known.
    """
    block_size = settings.block_size or profile.block_size
    given = given_pool_bytes(settings, profile)
    dtype = settings.kv_cache_dtype if settings.kv_cache_dtype != "auto" else profile.kv_cache_dtype
    weights = shape.num_weight_bytes(settings.quantization)
    step = 0
    if profile.device == "cuda":
        step = _LIBRARY_BYTES + _GRAPH_BYTES
        step += shape.num_step_bytes(
            settings.max_num_batched_tokens or profile.max_num_batched_tokens,
            settings.max_num_seqs or profile.max_num_seqs,
        )
    share = settings.gpu_memory_utilization or profile.gpu_memory_utilization
    usable = None if given is not None else math.ceil(memory_bytes * share)
    pool = given if given is not None else math.ceil(memory_bytes * share) - weights - step
    if settings.num_gpu_blocks_override is not None:
        pool = settings.num_gpu_blocks_override * block_size * shape.kv_bytes_per_token(dtype)
    return Fit(shape, profile, dtype, block_size, memory_bytes, usable, weights, step, pool)


def fit_folder(settings: EngineSettings, profile: Profile, folder: Path) -> Fit | None:
    """As `fit`, for a model's folder on this machine; None where its shape, or its quantisation's, is not known."""
    try:
        return fit(settings, profile, read_shape(folder), _memory_bytes(profile))
    except EngineError as error:
        if error.code != "shape_unknown":
            raise
        return None


def refuse_what_does_not_fit(settings: EngineSettings, profile: Profile, folder: Path) -> None:
    """Raises EngineError `does_not_fit` before half a minute of loading shows the same."""
    fitted = fit_folder(settings, profile, folder)
    if fitted is None:
        return
    fitted.refuse_memory()
    fitted.refuse_context(settings.max_model_len or fitted.max_model_len)


def given_pool_bytes(settings: EngineSettings, profile: Profile) -> int | None:
    """The pool's size where it is given and not what is left of a share; vLLM takes exactly that.

    Raises:
        EngineError: `does_not_fit` where no machine has so much.
    """
    given_gib = settings.kv_cache_gib or profile.kv_cache_gib
    if given_gib is None:
        return None
    if given_gib > _MOST_GIB:
        raise EngineError(
            "does_not_fit",
            f"{given_gib:g} GiB of keys and values are more than any machine has; "
            "give the cache as much as is there beside the weights (kv_cache_gib).",
        )
    return math.ceil(given_gib * GIB)


def _memory_bytes(profile: Profile) -> int:
    if profile.device == "cpu":
        return int(memory_of_machine_gib() * GIB)
    card = read_card()
    return card.memory_bytes if card else int(profile.memory_gib * GIB)
