"""What a model takes, from its config.json: parameters, weights, keys and values, and what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from engine.base import EngineError
from engine.registry import REGISTRY
from engine.shape import ModelShape, read_shape, shape_of

QWEN3_4B: dict[str, Any] = {
    "model_type": "qwen3", "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "hidden_size": 2560, "intermediate_size": 9728, "vocab_size": 151936,
    "max_position_embeddings": 262144, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "attention_bias": False,
    "sliding_window": None, "use_sliding_window": False,
}  # fmt: skip


def shape(num_disk_bytes: int | None = None, **changes: Any) -> ModelShape:
    return shape_of(QWEN3_4B | changes, num_disk_bytes, "config.json")


def test_config_gives_the_shape_that_is_known_by_name() -> None:
    """The numbers that `readonce fit` has before a model is fetched."""
    assert shape() == REGISTRY["qwen3-4b"].shape


@pytest.mark.parametrize(
    ("name", "num_parameters"),
    [
        ("qwen3-4b", 4_022_468_096),
        ("qwen2.5-coder-0.5b", 494_032_768),
        ("qwen2.5-coder-1.5b", 1_543_714_304),
        ("smollm2-135m", 134_515_008),
    ],
)
def test_parameters_are_counted_to_the_last(name: str, num_parameters: int) -> None:
    """Biases, norms and the tied embedding included; 16 bits each."""
    known = REGISTRY[name].shape
    assert known is not None
    assert known.num_parameters == num_parameters
    assert known.num_weight_bytes() == 2 * num_parameters


def test_untied_embeddings_are_two_matrices() -> None:
    """The output layer is one more embedding."""
    assert shape(tie_word_embeddings=False).num_parameters - shape().num_parameters == 151_936 * 2_560


def test_heads_of_unsaid_size_share_the_hidden_size_and_unsaid_kv_heads_are_all_heads() -> None:
    """As config.json files of older models leave it out."""
    bare = {key: value for key, value in QWEN3_4B.items() if key not in ("head_dim", "num_key_value_heads")}
    old = shape_of(bare, None, "config.json")
    assert (old.head_dim, old.num_kv_heads) == (80, 32)


def test_quantised_weights_leave_the_embedding_in_16_bits() -> None:
    """fp8 halves the linear layers; 4 bits take 20 more for each group of 128."""
    linear, rest = 3_633_315_840, 4_022_468_096 - 3_633_315_840
    assert shape().num_weight_bytes("fp8") == linear + 2 * rest
    assert shape().num_weight_bytes("awq") == linear * 4.15625 // 8 + 2 * rest
    assert shape(quantization_config={"quant_method": "gptq"}).num_weight_bytes() == linear * 4.15625 // 8 + 2 * rest


def test_files_on_disk_come_before_the_arithmetic_unless_they_are_quantised_anew() -> None:
    """Checkpoints in 32 bits are loaded in 16."""
    assert shape(8_000).num_weight_bytes() == 8_000
    assert shape(8_000, torch_dtype="float32").num_weight_bytes() == 4_000
    assert shape(3_000, quantization_config={"quant_method": "mystery"}).num_weight_bytes() == 3_000
    assert shape(8_000).num_weight_bytes("fp8") == shape().num_weight_bytes("fp8")


def test_unknown_quantisation_without_files_is_refused_by_name() -> None:
    """Better no number than a wrong one."""
    with pytest.raises(EngineError, match="mystery") as caught:
        shape().num_weight_bytes("mystery")
    assert caught.value.code == "shape_unknown"


@pytest.mark.parametrize(
    "changes",
    [
        {"kv_lora_rank": 512},
        {"num_experts": 8},
        {"text_config": {}, "vision_config": {"depth": 2}},
        {"sliding_window": 4096, "use_sliding_window": True},
        {"layer_types": ["full_attention", "linear_attention"]},
        {"num_hidden_layers": None},
        {"num_attention_heads": 0},
        {"num_attention_heads": "many"},
        {"num_attention_heads": 0.5, "head_dim": None},
        {"hidden_size": float("inf")},
        {"layer_types": 5},
        {"layer_types": [{}]},
        {"quantization_config": "awq"},
    ],
)
def test_what_is_no_dense_decoder_with_full_attention_is_refused(changes: dict[str, Any]) -> None:
    """Their caches follow other rules."""
    with pytest.raises(EngineError, match=r"config\.json tells of") as caught:
        shape(**changes)
    assert caught.value.code == "shape_unknown"


def test_window_that_is_not_used_is_none() -> None:
    """Qwen writes one down and leaves it off; so does a list of layers that are all full."""
    assert shape(sliding_window=4096) == shape()
    assert shape(layer_types=["full_attention"] * 36) == shape()


def test_weights_count_only_where_every_file_is_there(tmp_path: Path) -> None:
    """The index names the files; one that is missing makes the sum meaningless."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    assert read_shape(tmp_path).num_stored_bytes is None
    shards = {"a": "one.safetensors", "b": "two.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    (tmp_path / "one.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    assert read_shape(tmp_path).num_stored_bytes is None
    (tmp_path / "two.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}" + bytes(90))
    assert read_shape(tmp_path).num_stored_bytes == 110
    for index in ("[1]", '{"weight_map": 5}', "{"):
        (tmp_path / "model.safetensors.index.json").write_text(index)
        assert read_shape(tmp_path).num_stored_bytes == 110  # the files that there are


def test_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    """The sentence names the file."""
    with pytest.raises(EngineError, match=r"config\.json can't be read") as caught:
        read_shape(tmp_path)
    assert caught.value.code == "shape_unknown"


@pytest.mark.parametrize("text", ["[1]", "5", "null"])
def test_config_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    """The sentence names the file."""
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(EngineError, match=r"config\.json holds no JSON object") as caught:
        read_shape(tmp_path)
    assert caught.value.code == "shape_unknown"
