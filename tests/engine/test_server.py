"""The flags and the environment that vLLM is started with."""

from __future__ import annotations

import importlib.util
import json
from itertools import pairwise
from pathlib import Path

import pytest

from engine.base import EngineError
from engine.profiles import PROFILES
from engine.server import EngineSettings, command_line, environment

FOLDER = Path("/models/m")


def settings(**changes: object) -> EngineSettings:
    return EngineSettings(model="m", state_dir=Path("/s"), cache_dir=Path("/c"), **changes)  # type: ignore[arg-type]


def line(device: str = "cuda", **changes: object) -> list[str]:
    return command_line(settings(**changes), FOLDER, 8101, name="m", device=device)  # type: ignore[arg-type]


def test_flags_on_a_cpu() -> None:
    """Small blocks, no compilation, a fixed cache; only this machine may connect."""
    assert line("cpu") == [
        "--model", "/models/m", "--served-model-name", "m", "--host", "127.0.0.1", "--port", "8101",
        "--max-model-len", "8192", "--block-size", "32", "--scheduling-policy", "priority",
        "--prefix-caching-hash-algo", "sha256_cbor", "--kv-cache-memory-bytes", "2147483648", "--dtype", "bfloat16",
        "--max-num-batched-tokens", "2048", "--max-num-seqs", "128",
        "--enable-prompt-tokens-details", "--enable-force-include-usage", "--disable-uvicorn-access-log",
        "--enforce-eager",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("profile", "context", "batched", "seqs"),
    [
        ("12gb", "12288", "2048", "64"),
        ("24gb", "32768", "2048", "128"),
        ("48gb", "65536", "4096", "256"),
        ("80gb", "131072", "8192", "256"),
    ],
)
def test_flags_of_each_profile_on_a_gpu(profile: str, context: str, batched: str, seqs: str) -> None:
    """Large blocks, priorities, and the cache is what its share of the card leaves."""
    assert line(profile=profile) == [
        "--model", "/models/m", "--served-model-name", "m", "--host", "127.0.0.1", "--port", "8101",
        "--max-model-len", context, "--block-size", "128", "--scheduling-policy", "priority",
        "--prefix-caching-hash-algo", "sha256_cbor", "--gpu-memory-utilization", "0.9",
        "--max-num-batched-tokens", batched, "--max-num-seqs", seqs,
        "--enable-prompt-tokens-details", "--enable-force-include-usage", "--disable-uvicorn-access-log",
    ]  # fmt: skip


def test_the_largest_profile_reads_a_shared_document_once() -> None:
    """Our attention, every step from a captured graph, and steps that fit the largest graph."""
    flags = line(profile="141gb")
    assert flags[flags.index("--attention-backend") + 1] == "CUSTOM"
    compilation = json.loads(flags[flags.index("--compilation-config") + 1])
    assert compilation["cudagraph_mode"] == "FULL"
    assert max(compilation["cudagraph_capture_sizes"]) == int(flags[flags.index("--max-num-batched-tokens") + 1]) == 512
    assert flags[flags.index("--block-size") + 1] == "32"
    assert "--attention-backend" not in line(profile="141gb", shared_attention=False)
    assert "CUSTOM" in line(profile="80gb", shared_attention=True)
    assert "CUSTOM" not in line("cpu", shared_attention=True)


def test_profile_is_lowered_to_what_the_model_reads_and_the_pool_holds(tmp_path: Path) -> None:
    """A context that the profile has and the model has not would end vLLM's start; so would one beyond the pool."""
    config = {
        "model_type": "llama", "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "head_dim": 64, "hidden_size": 576, "intermediate_size": 1536, "vocab_size": 49152,
        "max_position_embeddings": 4096, "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))

    def context(**changes: object) -> str:
        flags = command_line(settings(**changes), tmp_path, 1, name="m", device="cpu")
        return dict(pairwise(flags))["--max-model-len"]

    assert context() == "4096"
    assert context(kv_cache_gib=0.0625) == str(90 * 32)  # 2**26 bytes hold 91 blocks of 737,280; vLLM keeps one
    assert context(max_model_len=1000) == "1000"


def test_every_setting_reaches_its_flag() -> None:
    """Values given win over the device's defaults; further flags come last."""
    given = settings(
        kv_cache_gib=0.5, max_model_len=512, block_size=16, max_num_batched_tokens=256, max_num_seqs=8,
        num_gpu_blocks_override=48, extra_args=("--seed", "1"), profile="24gb",
    )  # fmt: skip
    line = command_line(given, FOLDER, 1, name="m", device="cuda")
    flags = dict(pairwise(line))
    assert flags["--kv-cache-memory-bytes"] == "536870912"
    assert "--gpu-memory-utilization" not in flags
    assert flags["--max-model-len"] == "512"
    assert flags["--block-size"] == "16"
    assert flags["--max-num-batched-tokens"] == "256"
    assert flags["--max-num-seqs"] == "8"
    assert flags["--num-gpu-blocks-override"] == "48"
    assert line[-2:] == ["--seed", "1"]


def test_environment_keeps_what_is_inherited_less_what_would_change_the_flags() -> None:
    """A seed would change vLLM's block hashes, an old variable the cache's size, dev mode would open its routes."""
    inherited = {
        "PATH": "/bin", "PYTHONHASHSEED": "1", "VLLM_CPU_KVCACHE_SPACE": "40", "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_API_KEY": "x", "PYTHONPATH": "/mine",
    }  # fmt: skip
    variables = environment(settings(), "cpu", inherited, "secret")
    root = Path(__file__).resolve().parents[2]
    assert variables == {
        "PATH": "/bin",
        "PYTHONPATH": f"{root}:/mine",
        "VLLM_PLUGINS": "readonce",
        "VLLM_API_KEY": "secret",
        "READONCE_PLUGIN_STATE": "/s/plugin",
        "READONCE_PLUGIN_GUARD": "1",
        "READONCE_PLUGIN_STEP_MS": "500",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_CPU_OMP_THREADS_BIND": "auto",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    }
    assert inherited["PYTHONHASHSEED"] == "1"


def test_a_step_is_as_long_as_the_profile_says_unless_somebody_set_it() -> None:
    """A large card reads in short steps: they keep a question waiting for a moment only."""
    name = "READONCE_PLUGIN_STEP_MS"
    assert environment(settings(profile="141gb"), "cuda", {}, "t")[name] == str(PROFILES["141gb"].step_ms)
    assert environment(settings(profile="141gb"), "cuda", {name: "20"}, "t")[name] == "20"


@pytest.mark.parametrize(("dev_mode", "value"), [(True, "1"), (False, None)])
def test_dev_routes_are_open_only_when_asked_for(dev_mode: bool, value: str | None) -> None:
    """They can empty the cache."""
    assert environment(settings(dev_mode=dev_mode), "cuda", {}, "t").get("VLLM_SERVER_DEV_MODE") == value


def vllm_whose_source_says(folder: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for an installed vLLM; only its source is looked at."""
    package = folder / "vllm"
    (package / "config").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "config" / "model.py").write_text(words)
    spec = importlib.util.spec_from_file_location(
        "vllm", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "vllm" else None)


def test_cascade_takes_the_flag_and_the_older_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag alone does nothing in vLLM's newer runner."""
    vllm_whose_source_says(tmp_path, "disable_cascade_attn: bool = True", monkeypatch)
    assert line(profile="80gb", cascade=True)[-1] == "--no-disable-cascade-attn"
    assert environment(settings(profile="80gb", cascade=True), "cuda", {}, "t")["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert "--no-disable-cascade-attn" not in line(profile="80gb")
    assert "VLLM_USE_V2_MODEL_RUNNER" not in environment(settings(profile="80gb"), "cuda", {}, "t")


def test_cascade_is_refused_where_it_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version without it would end with a usage message; a CPU would ignore it."""
    with pytest.raises(EngineError, match="needs a GPU"):
        line("cpu", cascade=True)
    vllm_whose_source_says(tmp_path, "max_model_len: int", monkeypatch)
    with pytest.raises(EngineError, match=r"no cascade attention \(0\.32 dropped it\)") as caught:
        line(profile="24gb", cascade=True)
    assert caught.value.code == "cascade_missing"
