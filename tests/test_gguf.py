"""A GGUF file becomes a model folder with the same weights and the same token ids."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from tiny_model import CONTEXT, HEADS, HIDDEN, WORDS, hf_weights, write_gguf
from tokenizers import Tokenizer

import engine.gguf
from engine.base import EngineError
from engine.gguf import convert
from engine.weights import missing_from_model


def read_bfloat16(file: Path) -> dict[str, np.ndarray]:
    """An independent reading of the safetensors format, bfloat16 only."""
    content = file.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + size])
    assert header.pop("__metadata__") == {"format": "pt"}
    weights = {}
    for name, entry in header.items():
        assert entry["dtype"] == "BF16"
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        bits = np.frombuffer(content[start:end], dtype="<u2").astype(np.uint32) << 16
        weights[name] = bits.view(np.float32).reshape(entry["shape"])
    return weights


def converted(tmp_path: Path, gguf: Path, tie: bool = False) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    convert(gguf, folder, tie)
    return folder


@pytest.mark.parametrize(("architecture", "pre"), [("llama", "smollm"), ("qwen2", "qwen2")])
def test_every_weight_comes_back_with_its_name_and_the_rows_in_their_order(
    tmp_path: Path, architecture: str, pre: str
) -> None:
    """Llama's queries and keys are stored permuted; converting undoes it, and touches nothing else."""
    weights = hf_weights()
    folder = converted(tmp_path, write_gguf(tmp_path / "m.gguf", weights, architecture, pre))
    found = read_bfloat16(folder / "model.safetensors")
    assert found.keys() == weights.keys()
    for name, weight in weights.items():
        np.testing.assert_array_equal(found[name], weight, err_msg=name)
    assert missing_from_model(folder) == ()


def test_the_size_of_the_pieces_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row or all at once: the same file, and the bytes told add up to the weights."""
    gguf = write_gguf(tmp_path / "m.gguf")
    files = []
    for numbers in (1, 1 << 22):
        monkeypatch.setattr(engine.gguf, "CHUNK_NUMBERS", numbers)
        folder = tmp_path / str(numbers)
        folder.mkdir()
        told: list[int] = []
        convert(gguf, folder, False, told.append)
        assert sum(told) == 2 * sum(weight.size for weight in hf_weights().values())
        files.append((folder / "model.safetensors").read_bytes())
    assert files[0] == files[1]


def test_numbers_round_to_the_nearest_bfloat16_and_ties_to_even() -> None:
    """bfloat16 keeps 8 bits of precision: 1 + 2^-8 lies half-way between two of its numbers, as does 1 + 3 * 2^-8."""
    given = np.array([1.0, 1 + 2**-8, 1 + 2**-8 + 2**-16, 1 + 3 * 2**-8, -(1 + 3 * 2**-8), -0.0], dtype=np.float32)
    expected = np.array([1.0, 1.0, 1 + 2**-7, 1 + 2**-6, -(1 + 2**-6), -0.0], dtype=np.float32)
    bits = engine.gguf._as_bfloat16(given).astype(np.uint32) << 16
    assert bits.tolist() == expected.view(np.uint32).tolist()


def test_a_tied_head_takes_the_embeddings_place(tmp_path: Path) -> None:
    """With `tie` the file's own output head becomes the one matrix for both; without it both are kept."""
    head = hf_weights(seed=1)["model.embed_tokens.weight"]
    gguf = write_gguf(tmp_path / "m.gguf", hf_weights() | {"lm_head.weight": head})
    for tie in (True, False):
        folder = tmp_path / f"tie-{tie}"
        folder.mkdir()
        convert(gguf, folder, tie)
        found = read_bfloat16(folder / "model.safetensors")
        assert ("lm_head.weight" in found) is not tie
        assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is tie
        np.testing.assert_array_equal(found["model.embed_tokens.weight" if tie else "lm_head.weight"], head)


def test_the_config_says_what_the_file_says(tmp_path: Path) -> None:
    """The values that vLLM builds the model from."""
    folder = converted(tmp_path, write_gguf(tmp_path / "m.gguf", None, "qwen2", "qwen2"))
    config = json.loads((folder / "config.json").read_text())
    expected = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "head_dim": HIDDEN // HEADS,
        "max_position_embeddings": CONTEXT,
        "vocab_size": len(WORDS),
        "tie_word_embeddings": True,
        "eos_token_id": 2,
    }
    assert {key: config[key] for key in expected} == expected
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [2, 1]
    assert "<|im_start|>" in json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]


@pytest.mark.parametrize(("architecture", "pre"), [("llama", "smollm"), ("qwen2", "qwen2")])
def test_the_tokenizer_merges_cuts_and_gives_the_text_back(tmp_path: Path, architecture: str, pre: str) -> None:
    """Merges apply, digits stand alone, specials have their own ids, and any text survives the way there and back."""
    folder = converted(tmp_path, write_gguf(tmp_path / "m.gguf", None, architecture, pre))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("hello w12").tokens == ["hello", "Ġw", "1", "2"]
    assert tokenizer.encode("<|im_start|>he<|im_end|>").ids == [1, WORDS.index("he"), 2]
    text = "Größe 12,5 · 这是什么？\n\t x"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.parametrize("keep", [0, 3, 40, 2_000, -1])
def test_a_broken_file_is_one_sentence(tmp_path: Path, keep: int) -> None:
    """Cut anywhere, from empty to one byte short, a file is `model_corrupt`."""
    gguf = write_gguf(tmp_path / "m.gguf")
    gguf.write_bytes(gguf.read_bytes()[:keep])
    with pytest.raises(EngineError, match="fetch it again") as caught:
        converted(tmp_path, gguf)
    assert caught.value.code == "model_corrupt"


def test_an_unknown_architecture_or_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    """Wrong weights would load and then talk nonsense, so what is not known is refused."""
    with pytest.raises(EngineError, match="'gemma' model; known are llama, qwen2") as caught:
        converted(tmp_path, write_gguf(tmp_path / "a.gguf", architecture="gemma"))
    assert caught.value.code == "model_unsupported"
    (tmp_path / "out").rmdir()
    with pytest.raises(EngineError, match="tokenizer 'odd' is not known"):
        converted(tmp_path, write_gguf(tmp_path / "b.gguf", pre="odd"))
