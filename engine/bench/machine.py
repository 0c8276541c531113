"""Decides what a result says about where it was made: date, machine, versions, model. A figure without them is none."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine.server import RunningEngine

_SMI_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Machine:
    """Where it ran; `gpus` is empty where there is none. Memory in GiB."""

    cpu: str
    cores: int
    memory_gib: float
    gpus: tuple[str, ...]
    gpu_memory_gib: float | None


@dataclass(frozen=True)
class About:
    """What every line of results carries.

    Attributes:
        date: UTC, ISO 8601, of the system's first measurement.
        scale: `cpu`, `gpu` or `quick`.
        vllm: The server's version; empty where it does not say.
        block_size, num_blocks: Of the server's cache; None where it does not say.
    """

    date: str
    machine: Machine
    readonce: str
    vllm: str
    python: str
    model: str
    max_model_len: int
    block_size: int | None
    num_blocks: int | None
    scale: str


def about(running: RunningEngine, scale: str) -> About:
    """What is known of this machine now, and of a server."""
    return About(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=this_machine(),
        readonce=_version("readonce"),
        vllm=running.version,
        python=platform.python_version(),
        model=running.model,
        max_model_len=running.max_model_len,
        block_size=running.block_size,
        num_blocks=running.num_blocks,
        scale=scale,
    )


def this_machine() -> Machine:
    """Read from the kernel, and from NVIDIA's own tool where it is there."""
    gpus = _gpus()
    return Machine(
        cpu=_first(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo")) or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(int(_first(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo")) or 0) / 2**20, 1),
        gpus=tuple(name for name, _ in gpus),
        gpu_memory_gib=round(sum(mib for _, mib in gpus) / 1024, 1) if gpus else None,
    )


def _gpus() -> list[tuple[str, float]]:
    """(name, MiB) of each."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=True).stdout
        return [(name.strip(), float(mib)) for name, _, mib in (line.rpartition(",") for line in told.splitlines())]
    return []


def _first(pattern: str, file: Path) -> str | None:
    with contextlib.suppress(OSError):
        found = re.search(pattern, file.read_text(errors="replace"), re.MULTILINE)
        return found.group(1).strip() if found else None
    return None


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return ""
