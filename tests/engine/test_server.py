"""The flags and the environment that vLLM is started with."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from engine.server import EngineSettings, command_line, environment

FOLDER = Path("/models/m")


def settings(**changes: object) -> EngineSettings:
    return EngineSettings(model="m", state_dir=Path("/s"), cache_dir=Path("/c"), **changes)  # type: ignore[arg-type]


def test_flags_on_a_cpu() -> None:
    """Small blocks, no compilation, a fixed cache; only this machine may connect."""
    assert command_line(settings(), FOLDER, 8101, name="m", device="cpu") == [
        "--model", "/models/m", "--served-model-name", "m", "--host", "127.0.0.1", "--port", "8101",
        "--max-model-len", "8192", "--block-size", "32", "--scheduling-policy", "priority",
        "--prefix-caching-hash-algo", "sha256_cbor", "--kv-cache-memory-bytes", "2147483648", "--dtype", "bfloat16",
        "--enable-prompt-tokens-details", "--enable-force-include-usage", "--disable-uvicorn-access-log",
        "--enforce-eager",
    ]  # fmt: skip


def test_flags_on_a_gpu() -> None:
    """The context and the cache are what fits."""
    assert command_line(settings(), FOLDER, 8101, name="m", device="cuda") == [
        "--model", "/models/m", "--served-model-name", "m", "--host", "127.0.0.1", "--port", "8101",
        "--max-model-len", "auto", "--block-size", "64", "--scheduling-policy", "priority",
        "--prefix-caching-hash-algo", "sha256_cbor", "--gpu-memory-utilization", "0.9",
        "--enable-prompt-tokens-details", "--enable-force-include-usage", "--disable-uvicorn-access-log",
    ]  # fmt: skip


def test_every_setting_reaches_its_flag() -> None:
    """Values given win over the device's defaults; further flags come last."""
    given = settings(
        kv_cache_gib=0.5, max_model_len=512, block_size=16, max_num_batched_tokens=256, max_num_seqs=8,
        num_gpu_blocks_override=48, extra_args=("--quantization", "fp8"),
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
    assert line[-2:] == ["--quantization", "fp8"]


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


@pytest.mark.parametrize(("dev_mode", "value"), [(True, "1"), (False, None)])
def test_dev_routes_are_open_only_when_asked_for(dev_mode: bool, value: str | None) -> None:
    """They can empty the cache."""
    assert environment(settings(dev_mode=dev_mode), "cuda", {}, "t").get("VLLM_SERVER_DEV_MODE") == value
