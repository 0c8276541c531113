"""Decides what a model's config.json says about memory: its weights, the keys and values of a token, one step's peak.

Dense decoders with full attention in every layer; any other kind is refused rather than guessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import EngineError
from engine.weights import num_weight_bytes

# vLLM computes in 16 bits whatever the checkpoint is stored in.
_NUM_COMPUTE_BYTES = 2
_NUM_STORED_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
NUM_KV_BYTES = {"auto": 2, "bfloat16": 2, "fp8": 1}

# Bits that a weight of a linear layer takes, scales and zeros of each group counted in.
_LINEAR_BITS = {
    "fp8": 8.0,
    "awq": 4 + 20 / 128,
    "awq_marlin": 4 + 20 / 128,
    "gptq": 4 + 20 / 128,
    "gptq_marlin": 4 + 20 / 128,
    "bitsandbytes": 4 + 32 / 64,
}
# A key of config.json that only another kind of model has, and what that kind is called.
_OTHER_KINDS = {
    "kv_lora_rank": "keys and values of low rank",
    "num_experts": "experts",
    "num_local_experts": "experts",
    "n_routed_experts": "experts",
    "text_config": "images or sound",
    "vision_config": "images or sound",
    "encoder_layers": "an encoder",
    "ssm_cfg": "no attention",
    "mamba_d_state": "layers without attention",
}


@dataclass(frozen=True)
class ModelShape:
    """The numbers of a dense decoder that memory depends on.

    Attributes:
        context: Tokens that it reads at most; None where its config does not say.
        is_tied: The output layer is the embedding: one matrix, not two.
        has_qkv_bias, has_qk_norm: The few numbers by which the families differ.
        quantization: What its checkpoint is quantised with; None for 16 bits.
        num_stored_bytes: Of the weights on the GPU, as the files on disk have it; None where they are not there.
    """

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    context: int | None
    is_tied: bool
    has_qkv_bias: bool = False
    has_qk_norm: bool = False
    quantization: str | None = None
    num_stored_bytes: int | None = None

    def kv_bytes_per_token(self, kv_cache_dtype: str = "auto") -> int:
        """Keys and values of one token in all layers.

        Args:
            kv_cache_dtype: `auto` (as the model computes), `bfloat16` or `fp8`.
        """
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * NUM_KV_BYTES[kv_cache_dtype]

    @property
    def num_linear_parameters(self) -> int:
        """The matrices of the layers: what quantisation makes smaller."""
        attention = 2 * self.hidden_size * (self.num_heads + self.num_kv_heads) * self.head_dim
        return self.num_layers * (attention + 3 * self.hidden_size * self.intermediate_size)

    @property
    def num_parameters(self) -> int:
        norms = 2 * self.hidden_size + (2 * self.head_dim if self.has_qk_norm else 0)
        bias = (self.num_heads + 2 * self.num_kv_heads) * self.head_dim if self.has_qkv_bias else 0
        embeddings = (1 if self.is_tied else 2) * self.vocab_size * self.hidden_size
        return self.num_linear_parameters + self.num_layers * (norms + bias) + self.hidden_size + embeddings

    def num_weight_bytes(self, quantization: str | None = None) -> int:
        """What the weights take once loaded.

        Args:
            quantization: How vLLM is told to quantise; None: as the checkpoint is.

        Raises:
            EngineError: `shape_unknown` for a quantisation whose size is not known and no files to go by.
        """
        wanted = quantization or self.quantization
        if self.num_stored_bytes is not None and wanted == self.quantization:
            return self.num_stored_bytes
        if wanted is None:
            return self.num_parameters * _NUM_COMPUTE_BYTES
        if wanted not in _LINEAR_BITS:
            known = ", ".join(_LINEAR_BITS)
            raise EngineError(
                "shape_unknown",
                f"How much weights in {wanted} take is not known; known are {known}, or give a folder that holds them.",
            )
        others = self.num_parameters - self.num_linear_parameters
        return int(self.num_linear_parameters * _LINEAR_BITS[wanted] / 8) + others * _NUM_COMPUTE_BYTES

    def num_step_bytes(self, max_num_batched_tokens: int, max_num_seqs: int) -> int:
        """What one step needs beside weights and cache, at its largest: a layer's middle, or then the logits.

        The middle: the hidden states twice (with the residual), gate and up together, and their product. The logits:
        one row a sequence, in 16 bits and once more in 32, and the hidden states that they are made of.
        """
        num_rows = min(max_num_seqs, max_num_batched_tokens)
        hidden = max_num_batched_tokens * self.hidden_size * _NUM_COMPUTE_BYTES
        middle = 2 * hidden + max_num_batched_tokens * 3 * self.intermediate_size * _NUM_COMPUTE_BYTES
        logits = hidden + num_rows * self.vocab_size * (_NUM_COMPUTE_BYTES + 4)
        return max(middle, logits)


def read_shape(folder: Path) -> ModelShape:
    """The shape of the model in `folder`, and what its weights take.

    Raises:
        EngineError: `shape_unknown` where config.json is missing, or tells of no dense decoder with full attention.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError("shape_unknown", f"{path} can't be read ({error}); give a model's folder.") from error
    if not isinstance(config, dict):
        raise EngineError("shape_unknown", f"{path} holds no JSON object; give a model's folder.")
    return shape_of(config, num_weight_bytes(folder), str(path))


def shape_of(config: Mapping[str, Any], num_disk_bytes: int | None, where: str) -> ModelShape:
    """As `read_shape`, from what config.json holds and from the size of the weights' files (None: not there)."""
    try:
        for key, kind in _OTHER_KINDS.items():
            if config.get(key):
                raise _other(where, f"a model with {kind} ({key})")
        if config.get("sliding_window") and config.get("use_sliding_window", True):
            raise _other(where, f"a sliding window of {config['sliding_window']} tokens")
        if set(config.get("layer_types") or ()) - {"full_attention"}:
            raise _other(where, "layers without full attention (layer_types)")
        numbers = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "vocab_size")
        if unsaid := [key for key in numbers if not config.get(key)]:
            raise _other(where, f"no dense decoder (no {', '.join(unsaid)})")
        num_heads = int(config["num_attention_heads"])
        hidden_size = int(config["hidden_size"])
        stored = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
        shrinks = _NUM_COMPUTE_BYTES / _NUM_STORED_BYTES.get(stored, _NUM_COMPUTE_BYTES)
        quantised = config.get("quantization_config")
        family = str(config.get("model_type", ""))
        return ModelShape(
            num_layers=int(config["num_hidden_layers"]),
            num_heads=num_heads,
            num_kv_heads=int(config.get("num_key_value_heads") or num_heads),
            head_dim=int(config.get("head_dim") or hidden_size // num_heads),
            hidden_size=hidden_size,
            intermediate_size=int(config["intermediate_size"]),
            vocab_size=int(config["vocab_size"]),
            context=int(config["max_position_embeddings"]) if config.get("max_position_embeddings") else None,
            is_tied=bool(config.get("tie_word_embeddings", family in ("gemma", "gemma2"))),
            has_qkv_bias=bool(config.get("attention_bias", family == "qwen2")),
            has_qk_norm=family == "qwen3",
            quantization=str(quantised.get("quant_method", "unknown")) if quantised else None,
            num_stored_bytes=None if num_disk_bytes is None else int(num_disk_bytes * (1 if quantised else shrinks)),
        )
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise _other(where, f"no dense decoder ({error!r})") from error


def _other(where: str, what: str) -> EngineError:
    return EngineError(
        "shape_unknown",
        f"{where} tells of {what}, and only what a dense decoder with full attention takes is known; "
        "start the engine and see what vLLM says of its cache.",
    )
