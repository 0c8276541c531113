"""Decides how a GGUF file becomes a plain model folder that vLLM reads: names, shapes and number format of its weights.

The package mirror holds models as GGUF only. Weights are turned to bfloat16 a few rows at a time, so that memory stays
flat however large the file is; tensor names are llama.cpp's on the way in and Hugging Face's on the way out.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.base import EngineError

if TYPE_CHECKING:
    from gguf import GGUFReader
    from gguf.gguf_reader import ReaderTensor

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
CHUNK_NUMBERS = 1 << 22  # 16 MiB as float32

_TOP = {"token_embd.weight": EMBEDDING, "output_norm.weight": "model.norm.weight", "output.weight": HEAD}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LEFT_OUT = {"rope_freqs.weight"}  # derived from rope_theta, which config.json holds


@dataclass(frozen=True)
class Facts:
    """The metadata of a GGUF file: `Facts("block_count")` reads the architecture's own key, `key` any full key."""

    reader: GGUFReader

    @property
    def architecture(self) -> str:
        return str(self.key("general.architecture"))

    def __call__(self, name: str) -> Any:
        return self.key(f"{self.architecture}.{name}")

    def key(self, name: str, default: Any = ...) -> Any:
        """Raises: EngineError: `model_corrupt` where the file has no such key and no default was given."""
        field = self.reader.fields.get(name)
        if field is None and default is ...:
            raise EngineError("model_corrupt", f"The GGUF file has no {name!r}; fetch the model again.")
        return default if field is None else field.contents()


@dataclass(frozen=True)
class Weight:
    """One tensor on its way: `name` and `shape` as Hugging Face has them; `num_heads` where its rows are permuted."""

    name: str
    source: ReaderTensor
    num_heads: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in reversed(self.source.shape))

    @property
    def num_bytes(self) -> int:
        return 2 * prod(self.shape)


def convert(source: Path, folder: Path, tie: bool, advance: Callable[[int], None] = lambda num_bytes: None) -> None:
    """Writes config, weights (bfloat16) and tokenizer of the GGUF file `source` into `folder`, which must exist.

    Args:
        tie: Where the file has an output head of its own, take it for the embedding too (they were one matrix before
            the file was quantised, and the head is kept in the better precision).
        advance: Called with the number of bytes written since the last call.

    Raises:
        EngineError: `model_corrupt` for a file that is no whole GGUF, `model_unsupported` for an architecture or a
            tokenizer that this module does not know.
    """
    from engine.gguf_tokenizer import write_tokenizer

    facts = Facts(_open(source))
    if facts.architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise EngineError("model_unsupported", f"{source.name} is a {facts.architecture!r} model; known are {known}.")
    weights = list(_weights(facts, tie))
    _write_configs(facts, folder, weights)
    write_tokenizer(facts, folder)
    with (folder / "model.safetensors").open("wb") as file:
        _write_weights(file, weights, advance)


def _open(source: Path) -> GGUFReader:
    from gguf import GGUFReader

    try:
        return GGUFReader(source)
    except (ValueError, IndexError, KeyError, OverflowError) as error:  # what its parser raises on broken bytes
        message = f"{source.name} is not a whole GGUF file ({error}); fetch it again."
        raise EngineError("model_corrupt", message) from error


def _weights(facts: Facts, tie: bool) -> Iterator[Weight]:
    tensors = {tensor.name: tensor for tensor in facts.reader.tensors if tensor.name not in _LEFT_OUT}
    if tie and "output.weight" in tensors:
        tensors["token_embd.weight"] = tensors.pop("output.weight")
    for name, tensor in tensors.items():
        yield Weight(_name(name), tensor, _num_permuted_heads(name, facts))


def _name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    block, _, rest = name.partition(".")
    number, _, rest = rest.partition(".")
    part, _, kind = rest.rpartition(".")
    if block != "blk" or part not in _IN_LAYER:
        raise EngineError(
            "model_unsupported", f"The GGUF file holds a tensor {name!r} that this program does not know."
        )
    return f"model.layers.{number}.{_IN_LAYER[part]}.{kind}"


def _num_permuted_heads(name: str, facts: Facts) -> int | None:
    """llama.cpp interleaves the rows of Llama's queries and keys for its own rotary embedding."""
    if facts.architecture != "llama":
        return None
    if ".attn_q." in name:
        return int(facts("attention.head_count"))
    return int(facts("attention.head_count_kv")) if ".attn_k." in name else None


def _write_configs(facts: Facts, folder: Path, weights: list[Weight]) -> None:
    shapes = {weight.name: weight.shape for weight in weights}
    hidden, heads = int(facts("embedding_length")), int(facts("attention.head_count"))
    first, end = facts.key("tokenizer.ggml.bos_token_id"), facts.key("tokenizer.ggml.eos_token_id")
    qwen = facts.architecture == "qwen2"
    config = {
        "architectures": [ARCHITECTURES[facts.architecture]],
        "model_type": facts.architecture,
        "hidden_size": hidden,
        "intermediate_size": facts("feed_forward_length"),
        "num_hidden_layers": facts("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": facts("attention.head_count_kv"),
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "max_position_embeddings": facts("context_length"),
        "rms_norm_eps": facts("attention.layer_norm_rms_epsilon"),
        "rope_theta": facts("rope.freq_base"),
        "vocab_size": shapes[EMBEDDING][0],
        "tie_word_embeddings": HEAD not in shapes,
        "dtype": "bfloat16",
        "bos_token_id": first,
        "eos_token_id": end,
        "use_cache": True,
        "attention_dropout": 0.0,
        **({"use_sliding_window": False} if qwen else {"attention_bias": False, "mlp_bias": False}),
    }
    padding = facts.key("tokenizer.ggml.padding_token_id", None)
    # Qwen's chat models end a turn with either of their two end tokens; a GGUF file has room for one.
    ends = sorted({end, first}, reverse=True) if qwen else [end]
    generation = {"bos_token_id": first, "eos_token_id": ends, "pad_token_id": padding, "do_sample": False}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1))


def _write_weights(file: IO[bytes], weights: list[Weight], advance: Callable[[int], None]) -> None:
    """The safetensors format: the header's length (8 bytes), the header as JSON, the tensors without gaps."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for weight in weights:
        span = [at, at + weight.num_bytes]
        header[weight.name] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": span}
        at = span[1]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for weight in weights:
        for numbers in _numbers(weight):
            advance(file.write(_as_bfloat16(numbers).tobytes()))


def _numbers(weight: Weight) -> Iterator[NDArray[np.float32]]:
    """The tensor as float32, a few rows at a time; in one piece where its rows have to change places."""
    from gguf import dequantize

    data, kind = weight.source.data, weight.source.tensor_type
    if weight.num_heads is not None:
        whole = dequantize(data, kind)
        paired = whole.reshape(weight.num_heads, whole.shape[0] // weight.num_heads // 2, 2, *whole.shape[1:])
        yield paired.swapaxes(1, 2).reshape(whole.shape)
        return
    num_rows = max(1, CHUNK_NUMBERS // prod(weight.shape[1:]))
    for at in range(0, weight.shape[0], num_rows):
        yield dequantize(data[at : at + num_rows], kind)


def _as_bfloat16(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Rounds to the nearest, ties to even, as torch does."""
    bits = np.ascontiguousarray(numbers, dtype="<f4").view("<u4")
    rounded: NDArray[np.uint16] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return rounded
