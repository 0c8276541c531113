"""Decides with which flags and environment vLLM is started, on a CPU and on a GPU. `lease` starts it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.base import EngineError
from engine.traces import require_packages

HOST = "127.0.0.1"
Device = Literal["auto", "cpu", "cuda"]

_CPU_KV_CACHE_GIB = 2.0
_CPU_MAX_MODEL_LEN = 8192
# vLLM's CPU kernels want multiples of 32; the smaller the block, the less of a prefix lies in its last, unfinished one.
_CPU_BLOCK_SIZE = 32
# The host's work for a warm question falls with the number of blocks; FLASH_ATTN wants multiples of 16.
_CUDA_BLOCK_SIZE = 64
_INHERITED_BUT_OURS = (
    "PYTHONHASHSEED",  # would seed vLLM's block hashes
    "VLLM_CPU_KVCACHE_SPACE",  # would override --kv-cache-memory-bytes
    "VLLM_SERVER_DEV_MODE",  # would open the routes that reset and pause
    "VLLM_API_KEY",
)


@dataclass(frozen=True)
class EngineSettings:
    """Which engine, and how it is started.

    Attributes:
        model: A name of the registry or a model folder.
        state_dir: Holds the engine's record, log, lock and socket; one engine a folder.
        cache_dir: Where models lie.
        url: An engine elsewhere (`http://host:port`, with or without `/v1`); nothing is then started.
        token: What an engine elsewhere wants as its API key; None where it wants none.
        device: `auto` takes the GPU if there is one and vLLM was built for it.
        port: None takes any free one.
        kv_cache_gib: Memory for keys and values; None: 2 on a CPU, on a GPU what `gpu_memory_utilization` leaves.
        max_model_len: Tokens of prompt and answer; None: 8192 on a CPU, what fits on a GPU.
        block_size: Tokens in a block; None: 32 on a CPU, 64 on a GPU.
        num_gpu_blocks_override, dev_mode: For tests: a pool of so many blocks; the route that empties the cache.
        keep_alive_s: How long the engine waits for the next command after the last one ended well.
        start_timeout_s: How long a start may take before it is given up.
        offline: Models are not fetched.
        otlp_endpoint: Where OpenTelemetry's traces go; None: nothing is traced.
        extra_args: Further flags for vLLM.
    """

    model: str
    state_dir: Path
    cache_dir: Path
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    device: Device = "auto"
    port: int | None = None
    kv_cache_gib: float | None = None
    max_model_len: int | None = None
    block_size: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    gpu_memory_utilization: float = 0.9
    num_gpu_blocks_override: int | None = None
    dev_mode: bool = False
    keep_alive_s: float = 600.0
    start_timeout_s: float = 600.0
    offline: bool = False
    otlp_endpoint: str | None = None
    extra_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunningEngine:
    """An engine that answers.

    Attributes:
        url: Without `/v1`.
        model: The name that requests have to give.
        instance: Another one after each start: what was cached by one instance is gone with it.
        max_model_len: Tokens of prompt and answer.
        version: vLLM's; empty where the server does not say.
        block_size, num_blocks: Of the cache; None where the server does not say.
        pid, folder, started: Of an engine on this machine; None otherwise. `started` is a Unix time.
        token: Its API key; None where it wants none.
        features: What our routes in it say is on (`core`, `attention`, `events`); None where it has none of them.
    """

    url: str
    model: str
    instance: str
    max_model_len: int
    version: str = ""
    block_size: int | None = None
    num_blocks: int | None = None
    pid: int | None = None
    folder: Path | None = None
    started: float | None = None
    token: str | None = field(default=None, repr=False)
    features: Mapping[str, bool] | None = None


def command_line(settings: EngineSettings, folder: Path, port: int, *, name: str, device: Device) -> list[str]:
    """vLLM's flags.

    Args:
        folder: The model's folder.
        name: What requests call the model.
        device: `cpu` or `cuda`, as `resolve_device` gives it.

    Raises:
        EngineError: `traces_unavailable`.
    """
    if settings.otlp_endpoint is not None:
        require_packages()
    on_cpu = device == "cpu"
    block_size = settings.block_size or (_CPU_BLOCK_SIZE if on_cpu else _CUDA_BLOCK_SIZE)
    max_model_len = settings.max_model_len or (_CPU_MAX_MODEL_LEN if on_cpu else "auto")
    kv_cache_gib = settings.kv_cache_gib or (_CPU_KV_CACHE_GIB if on_cpu else None)
    flags: dict[str, object] = {
        "--model": folder,
        "--served-model-name": name,
        "--host": HOST,
        "--port": port,
        "--max-model-len": max_model_len,
        "--block-size": block_size,
        "--scheduling-policy": "priority",
        "--prefix-caching-hash-algo": "sha256_cbor",
        "--kv-cache-memory-bytes": None if kv_cache_gib is None else math.ceil(kv_cache_gib * 2**30),
        "--gpu-memory-utilization": None if on_cpu or kv_cache_gib is not None else settings.gpu_memory_utilization,
        "--dtype": "bfloat16" if on_cpu else None,
        "--max-num-batched-tokens": settings.max_num_batched_tokens,
        "--max-num-seqs": settings.max_num_seqs,
        "--num-gpu-blocks-override": settings.num_gpu_blocks_override,
        "--otlp-traces-endpoint": settings.otlp_endpoint,
    }
    line = [str(part) for flag, value in flags.items() if value is not None for part in (flag, value)]
    line += ["--enable-prompt-tokens-details", "--enable-force-include-usage", "--disable-uvicorn-access-log"]
    if on_cpu:
        line.append("--enforce-eager")  # compiling adds a minute to the start, and decodes no faster
    return [*line, *settings.extra_args]


def environment(settings: EngineSettings, device: Device, inherited: Mapping[str, str], token: str) -> dict[str, str]:
    """The environment of the engine's process: what it inherits, less what would change the flags' meaning.

    Args:
        token: Whoever calls a route under /v1 has to bring it.
    """
    variables = {name: value for name, value in inherited.items() if name not in _INHERITED_BUT_OURS}
    variables |= {
        "VLLM_PLUGINS": "readonce",
        "VLLM_API_KEY": token,  # not a flag: anybody on this machine can read those
        "READONCE_PLUGIN_STATE": os.path.abspath(settings.state_dir / "plugin"),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",  # the weights lie in a folder: nothing is to be fetched
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a child then runs launch's first lines: it dies with its parent
    }
    if device == "cpu":
        variables |= {"VLLM_CPU_OMP_THREADS_BIND": "auto", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0"}
    if settings.dev_mode:
        variables["VLLM_SERVER_DEV_MODE"] = "1"
    root = Path(__file__).resolve().parents[1]
    if root.name not in ("site-packages", "dist-packages"):  # run from its source: the child has to find it too
        variables["PYTHONPATH"] = ":".join([str(root), *filter(None, [inherited.get("PYTHONPATH")])])
    return variables


def resolve_device(device: Device) -> Device:
    """`cpu` or `cuda`.

    Raises:
        EngineError: `vllm_not_installed`.
    """
    if importlib.util.find_spec("vllm") is None:
        raise EngineError(
            "vllm_not_installed",
            "vLLM is not installed in this environment; run `make env`, or name an engine elsewhere with --engine URL.",
        )
    if device != "auto":
        return device
    return "cuda" if Path("/dev/nvidiactl").exists() and not _is_cpu_build() else "cpu"


def _is_cpu_build() -> bool:
    try:
        return "cpu" in importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return True  # the CPU build's distribution bears another name
