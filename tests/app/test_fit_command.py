"""`readonce fit`: what stays warm as a table or as JSON, the line to copy, and one sentence where it does not fit."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from library import Run


@pytest.fixture
def run(command: Run) -> Run:
    return partial(command, "fit")


def row(run: Run, *args: str) -> dict[str, Any]:
    code, out, err = run(*args, "--json")
    assert (code, err) == (0, "")
    loaded: dict[str, Any] = json.loads(out)
    return loaded


def test_json_has_the_memory_the_pool_the_documents_and_the_launch_line(run: Run) -> None:
    """Every key, and the exact line, for a 24 GB card; the device setting of this machine does not matter."""
    found = row(run, "--gpu", "24GB")
    documents, launch = found.pop("documents"), found.pop("launch")
    assert found == {
        "gpu": "24 GB", "profile": "24gb", "model": "qwen3-4b", "kv_cache_dtype": "auto", "memory_gib": 23.6,
        "usable_gib": 21.24, "weights_gib": 7.49, "step_gib": 0.8, "pool_gib": 12.94, "kv_bytes_per_token": 147_456,
        "block_size": 128, "num_blocks": 736, "pool_tokens": 94_208, "longest_context": 94_080,
        "max_model_len": 32_768, "section_tokens": 16_000,
    }  # fmt: skip
    assert [(entry["tokens"], entry["warm"], entry["warm_in_fp8"]) for entry in documents] == [
        (8_000, 10, 22), (16_000, 4, 10), (30_000, 2, 5), (60_000, 0, 2), (120_000, 0, 0)
    ]  # fmt: skip
    assert launch["environment"] == {"VLLM_PLUGINS": "readonce", "READONCE_PLUGIN_STEP_MS": "60"}
    assert launch["command"][:5] == ["python", "-m", "vllm.entrypoints.openai.api_server", "--model",
                                     "Qwen/Qwen3-4B-Instruct-2507"]  # fmt: skip
    assert launch["settings"] == {"READONCE_PROFILE": "24gb"}


def test_table_says_it_in_words_with_a_line_to_copy(run: Run) -> None:
    """The same numbers."""
    code, out, err = run("--gpu", "H200")
    assert (code, err) == (0, "")
    assert "profile 141gb" in out
    assert (
        "VLLM_PLUGINS=readonce READONCE_PLUGIN_STEP_MS=45 python -m vllm.entrypoints.openai.api_server --model Qwen/"
        in out
    )
    assert "READONCE_PROFILE=141gb" in out
    assert " ".join(next(line for line in out.splitlines() if "30,000 tokens" in line).split()) == "30,000 tokens 27 55"


def test_context_and_precision_reach_the_line_and_the_settings(run: Run) -> None:
    """What was asked for is what is started."""
    launch = row(run, "--gpu", "12GB", "--context", "30000", "--kv", "fp8")["launch"]
    line = " ".join(launch["command"])
    assert "--max-model-len 30000" in line
    assert "--kv-cache-dtype fp8" in line
    assert launch["settings"] == {
        "READONCE_PROFILE": "12gb", "READONCE_MAX_MODEL_LEN": "30000", "READONCE_KV_DTYPE": "fp8"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "code", "error", "words"),
    [
        (("--gpu", "12GB", "--context", "262144"), 1, "does_not_fit", "at most 17,408 tokens fit (34,944 in fp8)"),
        (("--gpu", "H200", "--context", "300000"), 1, "max_model_len_too_large", "reads at most 262,144 tokens"),
        (("--gpu", "24GB", "--documents", "3", "--context", "30000"), 1, "does_not_fit", "2 such documents stay warm"),
        (("--gpu", "8GB",), 1, "does_not_fit", "leave no room for keys and values"),
        (("--gpu", "toaster",), 2, "gpu_unknown", "give its size (24GB)"),
        (("--gpu", "24GB", "--model", "nonesuch"), 1, "model_unknown", "There is no model 'nonesuch'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence_and_a_code(
    run: Run, args: tuple[str, ...], code: int, error: str, words: str
) -> None:
    """On stderr for people, on stdout for programs."""
    found, out, err = run(*args, "--json")
    assert found == code
    told = json.loads(out)["error"]
    assert told["code"] == error
    assert words in told["message"]
    assert err == f"readonce: {told['message']}\n"
    assert run(*args)[1] == ""


def test_documents_that_fit_are_no_error(run: Run) -> None:
    """Without a context, of the length that is read at once."""
    assert row(run, "--gpu", "24GB", "--documents", "4")["section_tokens"] == 16_000
    assert run("--gpu", "24GB", "--documents", "5")[0] == 1


def test_folder_of_a_model_is_read_where_it_lies(run: Run, tmp_path: Path) -> None:
    """Its own numbers, and it stands in the line; on this machine's CPU the pool is what is given to it."""
    (tmp_path / "config.json").write_text(
        json.dumps(
            {"model_type": "llama", "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
             "hidden_size": 576, "intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 4096}
        )
    )  # fmt: skip
    found = row(run, "--gpu", "cpu", "--model", str(tmp_path))
    assert (found["gpu"], found["profile"], found["usable_gib"]) == (None, "cpu", None)
    assert (found["kv_bytes_per_token"], found["num_blocks"], found["max_model_len"]) == (23_040, 2_912, 4_096)
    assert found["launch"]["command"][4] == str(tmp_path)
    assert found["launch"]["settings"] == {"READONCE_PROFILE": "cpu", "READONCE_MAX_MODEL_LEN": "4096"}
