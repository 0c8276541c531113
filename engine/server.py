"""Decides with which flags and environment vLLM is started, on a CPU and on a GPU. `lease` starts it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.base import EngineError
from engine.fit import fit_folder, given_pool_bytes
from engine.knobs import STEP_MS
from engine.profiles import AUTO, KvCacheDtype, Profile, choose
from engine.traces import require_packages

HOST = "127.0.0.1"
Device = Literal["auto", "cpu", "cuda"]

_INHERITED_BUT_OURS = (
    "PYTHONHASHSEED",  # would seed vLLM's block hashes
    "VLLM_CPU_KVCACHE_SPACE",  # would override --kv-cache-memory-bytes
    "VLLM_SERVER_DEV_MODE",  # would open the routes that reset and pause
    "VLLM_API_KEY",
)
# Our backend; every step of up to 512 tokens from a captured graph, so that the host launches it in one go; and fewer
# pieces to merge than vLLM's 32, which take memory in each graph and bring nothing.
_GRAPH_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)
_SHARED_ATTENTION = (
    "--attention-backend",
    "CUSTOM",
    "--compilation-config",
    json.dumps({"cudagraph_mode": "FULL", "cudagraph_capture_sizes": _GRAPH_SIZES}, separators=(",", ":")),
    "--attention-config",
    '{"flash_attn_max_num_splits_for_cuda_graph":16}',
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
        served_as: What an engine elsewhere calls `model`; None: a name that tells.
        device: `auto` takes the GPU if there is one and vLLM was built for it.
        port: None takes any free one.
        profile: A name of `engine.profiles`: what the settings below are where they are None; `auto` reads the card.
        kv_cache_gib: Memory for keys and values; on a GPU otherwise what `gpu_memory_utilization` leaves.
        max_model_len: Tokens of prompt and answer; from the profile, no more than the model reads and the pool holds.
        block_size: Tokens in a block.
        kv_cache_dtype: `fp8` takes half the memory; `auto` is the profile's.
        quantization: vLLM's name for how the weights are quantised; None: as the model's folder says.
        kv_offloading_gib: Memory of the host that takes what falls out of the GPU's cache.
        cascade: Whether a batch on one document reads it once; None: the profile's, where vLLM still has it.
        shared_attention: Whether questions on a document read its keys and values together; None: the profile's.
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
    served_as: str | None = None
    device: Device = "auto"
    port: int | None = None
    profile: str = AUTO
    kv_cache_gib: float | None = None
    max_model_len: int | None = None
    block_size: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_dtype: KvCacheDtype = "auto"
    quantization: str | None = None
    kv_offloading_gib: float | None = None
    cascade: bool | None = None
    shared_attention: bool | None = None
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
        EngineError: `profile_unknown`, `profile_for_another_device`, `needs_a_gpu`, `cascade_missing`,
            `traces_unavailable`.
    """
    if settings.otlp_endpoint is not None:
        require_packages()
    on_cpu = device == "cpu"
    if on_cpu and settings.kv_offloading_gib:
        raise EngineError(
            "needs_a_gpu", "On a CPU the cache is in the host's memory already; leave kv_offloading_gib out."
        )
    profile = choose(settings.profile, device)
    pool_bytes = given_pool_bytes(settings, profile)
    share = settings.gpu_memory_utilization or profile.gpu_memory_utilization
    dtype = settings.kv_cache_dtype if settings.kv_cache_dtype != "auto" else profile.kv_cache_dtype
    flags: dict[str, object] = {
        "--model": folder,
        "--served-model-name": name,
        "--host": HOST,
        "--port": port,
        "--max-model-len": settings.max_model_len or _max_model_len(settings, profile, folder),
        "--block-size": settings.block_size or profile.block_size,
        "--scheduling-policy": "priority",
        "--prefix-caching-hash-algo": "sha256_cbor",
        "--kv-cache-memory-bytes": pool_bytes,
        "--gpu-memory-utilization": None if on_cpu or pool_bytes is not None else share,
        "--dtype": "bfloat16" if on_cpu else None,
        "--kv-cache-dtype": None if dtype == "auto" else dtype,
        "--quantization": settings.quantization,
        "--kv-offloading-size": settings.kv_offloading_gib,
        "--max-num-batched-tokens": settings.max_num_batched_tokens or profile.max_num_batched_tokens,
        "--max-num-seqs": settings.max_num_seqs or profile.max_num_seqs,
        "--num-gpu-blocks-override": settings.num_gpu_blocks_override,
        "--otlp-traces-endpoint": settings.otlp_endpoint,
    }
    line = [str(part) for flag, value in flags.items() if value is not None for part in (flag, value)]
    line += ["--enable-prompt-tokens-details", "--enable-force-include-usage", "--disable-uvicorn-access-log"]
    if on_cpu:
        line.append("--enforce-eager")  # compiling adds a minute to the start, and decodes no faster
    if wants_cascade(settings, profile):
        line.append("--no-disable-cascade-attn")
    if not on_cpu and (profile.shared_attention if settings.shared_attention is None else settings.shared_attention):
        line += _SHARED_ATTENTION
    return [*line, *settings.extra_args]


def environment(settings: EngineSettings, device: Device, inherited: Mapping[str, str], token: str) -> dict[str, str]:
    """The environment of the engine's process: what it inherits, less what would change the flags' meaning; the
    profile's length of a step where nothing else is inherited.

    Args:
        token: Whoever calls a route under /v1 has to bring it.
    """
    profile = choose(settings.profile, device)
    variables = {STEP_MS: str(profile.step_ms)}
    variables |= {name: value for name, value in inherited.items() if name not in _INHERITED_BUT_OURS}
    variables |= {
        "VLLM_PLUGINS": "readonce",
        "VLLM_API_KEY": token,  # not a flag: anybody on this machine can read those
        "READONCE_PLUGIN_STATE": os.path.abspath(settings.state_dir / "plugin"),
        "READONCE_PLUGIN_GUARD": "1",
        **quiet_environment(device),
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a child then runs launch's first lines: it dies with its parent
    }
    if wants_cascade(settings, profile):
        variables["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # the newer runner has none
    if settings.dev_mode:
        variables["VLLM_SERVER_DEV_MODE"] = "1"
    root = Path(__file__).resolve().parents[1]
    if root.name not in ("site-packages", "dist-packages"):  # run from its source: the child has to find it too
        variables["PYTHONPATH"] = ":".join([str(root), *filter(None, [inherited.get("PYTHONPATH")])])
    return variables


def quiet_environment(device: Device) -> dict[str, str]:
    """What any vLLM that is started here gets: it tells nobody, fetches nothing, and uses all cores of a CPU."""
    variables = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",  # the weights lie in a folder: nothing is to be fetched
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if device == "cpu":
        variables |= {"VLLM_CPU_OMP_THREADS_BIND": "auto", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0"}
    return variables


def wants_cascade(settings: EngineSettings, profile: Profile) -> bool:
    """Whether the engine starts with cascade attention: as asked, or where the profile has it and vLLM still does.

    Raises:
        EngineError: `needs_a_gpu`, `cascade_missing` where it is asked for and can't be had.
    """
    if settings.cascade is None:
        return profile.cascade and _has_cascade()
    if settings.cascade and profile.device == "cpu":
        raise EngineError("needs_a_gpu", "Cascade attention needs a GPU; leave the setting out on a CPU.")
    if settings.cascade and not _has_cascade():
        raise EngineError(
            "cascade_missing", "This version of vLLM has no cascade attention (0.32 dropped it); leave the setting out."
        )
    return settings.cascade


def _has_cascade() -> bool:
    """Read from vLLM's source: importing it takes seconds, and its version numbers do not tell."""
    found = importlib.util.find_spec("vllm")
    for folder in (found.submodule_search_locations or ()) if found else ():
        source = Path(folder) / "config" / "model.py"
        if source.is_file() and "disable_cascade_attn" in source.read_text(encoding="utf-8"):
            return True
    return False


def _max_model_len(settings: EngineSettings, profile: Profile, folder: Path) -> int:
    fitted = fit_folder(settings, profile, folder)
    return fitted.max_model_len if fitted else profile.max_model_len


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
