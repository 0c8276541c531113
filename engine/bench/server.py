"""Decides what a plain server is: the same vLLM on the same model, its own defaults, prefix caching on, no plugin.

It gets as much memory as our engine would, so that both have the same pool. Nothing of it outlives its block, nor the
process that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base import EngineError
from engine.failure import explain, stage, start_timeout
from engine.probe import is_ready, probe
from engine.process import choose_port
from engine.progress import Report
from engine.server import HOST, Device, RunningEngine, quiet_environment, resolve_device

_POLL_S = 0.2
_STOP_TIMEOUT_S = 20.0
_CPU_KV_CACHE_GIB = 2.0
# What would make it another server than vLLM's defaults.
_NOT_INHERITED = ("PYTHONHASHSEED", "VLLM_CPU_KVCACHE_SPACE", "VLLM_SERVER_DEV_MODE", "VLLM_API_KEY")
# Waits at the far end of a pipe whose near end we hold: when we are gone, the whole process group goes.
_TIED = 'exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec "$@" 3<&- </dev/null'


@dataclass(frozen=True)
class PlainSettings:
    """Which plain server, and how it is started.

    Attributes:
        folder: The model's.
        name: What requests call the model.
        log_file: Where it writes; what was there before is replaced.
        max_model_len: As our engine's; None: what vLLM chooses.
        kv_cache_gib, gpu_memory_utilization: As our engine's; on a CPU 2 GiB where nothing is said.
        extra_args: Further flags for vLLM.
    """

    folder: Path
    name: str
    log_file: Path
    device: Device = "auto"
    max_model_len: int | None = None
    kv_cache_gib: float | None = None
    gpu_memory_utilization: float = 0.9
    start_timeout_s: float = 600.0
    extra_args: tuple[str, ...] = ()


def command_line(settings: PlainSettings, port: int, device: Device) -> list[str]:
    """How it is started; everything that is not named is vLLM's default."""
    on_cpu = device == "cpu"
    kv_cache_gib = settings.kv_cache_gib or (_CPU_KV_CACHE_GIB if on_cpu else None)
    flags: dict[str, object] = {
        "--model": settings.folder,
        "--served-model-name": settings.name,
        "--host": HOST,
        "--port": port,
        "--max-model-len": settings.max_model_len,
        "--kv-cache-memory-bytes": None if kv_cache_gib is None else math.ceil(kv_cache_gib * 2**30),
        "--gpu-memory-utilization": None if on_cpu or kv_cache_gib else settings.gpu_memory_utilization,
        "--dtype": "bfloat16" if on_cpu else None,
    }
    line = [str(part) for flag, value in flags.items() if value is not None for part in (flag, value)]
    line.append("--enable-prompt-tokens-details")
    if on_cpu:
        line.append("--enforce-eager")  # as our engine: compiling adds a minute to the start
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *line, *settings.extra_args]


def environment(device: Device, inherited: Mapping[str, str]) -> dict[str, str]:
    """Its environment: no plugin of anybody, no variable that changes vLLM's defaults."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in _NOT_INHERITED and not name.startswith("READONCE_")
    }
    return kept | quiet_environment(device) | {"VLLM_PLUGINS": ""}  # an allow-list: none


@contextlib.contextmanager
def plain_server(
    settings: PlainSettings, report: Report | None = None, *, command: Sequence[str] | None = None
) -> Iterator[RunningEngine]:
    """Starts a plain server, waits until it answers, and ends it with the block.

    Args:
        report: Gets a few words about once a second while it starts.
        command: In place of vLLM, for tests; gets the port as its last argument.

    Raises:
        EngineError: What a start of our engine raises too: out_of_memory, weights_missing, start_timeout, engine_died.
    """
    device = resolve_device(settings.device) if command is None else "cpu"
    port = choose_port(None)
    line = command_line(settings, port, device) if command is None else [*command, str(port)]
    settings.log_file.parent.mkdir(parents=True, exist_ok=True)
    with settings.log_file.open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _TIED, "sh", *line],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment(device, os.environ),
            start_new_session=True,
        )
    try:
        yield _wait_until_ready(settings, process, port, report or (lambda words: None))
    finally:
        _end(process)


def _wait_until_ready(
    settings: PlainSettings, process: subprocess.Popen[bytes], port: int, report: Report
) -> RunningEngine:
    url = f"http://{HOST}:{port}"
    began = time.monotonic()
    said = -1
    while not is_ready(url):
        log = settings.log_file.read_text(errors="replace")
        if process.poll() is not None:
            raise explain(log, log_file=settings.log_file, folder=settings.folder, port=port)
        seconds = time.monotonic() - began
        if seconds > settings.start_timeout_s:
            raise start_timeout(settings.start_timeout_s, log, settings.log_file)
        if int(seconds) > said:
            said = int(seconds)
            report(f"{stage(log)} (the plain server) ... {said} s")
        time.sleep(_POLL_S)
    return probe(url)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the server to end, then kills what is left of its group, and waits until its memory is free."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_TIMEOUT_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    until = time.monotonic() + _STOP_TIMEOUT_S
    while _runs(process.pid):
        if time.monotonic() > until:
            raise EngineError(
                "engine_hangs", f"The plain server (process group {process.pid}) does not end; kill it, then go on."
            )
        time.sleep(_POLL_S)


def _runs(group: int) -> bool:
    """Whether a process of the group is left; one that is dead and not yet collected holds no memory."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                return True
    return False
