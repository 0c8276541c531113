"""Decides how much memory the engine has to do with: the GPU that is here, one that is named, or this machine's own."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from engine.base import EngineError

GIB = 2**30
_DRIVER = Path("/proc/driver/nvidia")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_ASK_TIMEOUT_S = 20.0

# What CUDA sees is less than what is printed on the card: (gigabytes by name, GiB that a program sees).
_SEEN = ((0.0, 0.0), (12.0, 11.9), (24.0, 23.6), (48.0, 44.4), (80.0, 79.2), (141.0, 139.8))
_GB_BY_NAME = {
    "B200": 180.0,
    "H200": 141.0,
    "H100": 80.0,
    "A100": 80.0,
    "L40S": 48.0,
    "L40": 48.0,
    "A40": 48.0,
    "A6000": 48.0,
    "6000 ADA": 48.0,
    "RTX 5090": 32.0,
    "RTX 4090": 24.0,
    "RTX 3090": 24.0,
    "A5000": 24.0,
    "A10G": 24.0,
    "A10": 24.0,
    "L4": 24.0,
    "RTX 4080": 16.0,
    "RTX 4070": 12.0,
    "RTX 3060": 12.0,
}


@dataclass(frozen=True)
class Card:
    """A GPU.

    Attributes:
        memory_gib: What a program sees of its memory, used or not; `--gpu-memory-utilization` is a share of that.
    """

    name: str
    memory_gib: float

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gib * GIB)


def named_card(text: str) -> Card:
    """The card that `text` names: a size (`24GB`, `24`) or a product (`H200`, `RTX 4090`).

    Raises:
        EngineError: `gpu_unknown`.
    """
    if size := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:gi?b)?\s*", text, re.IGNORECASE):
        gigabytes = float(size.group(1))
        return Card(f"{gigabytes:g} GB", _seen_gib(gigabytes))
    gigabytes_by_name = _gigabytes(text) if re.match(r"\s*[A-Za-z]", text) else None
    if gigabytes_by_name is None:
        known = ", ".join(_GB_BY_NAME)
        raise EngineError("gpu_unknown", f"{text!r} is no GPU that is known; give its size (24GB) or one of {known}.")
    return Card(text.strip(), _seen_gib(gigabytes_by_name))


@functools.cache
def read_card() -> Card | None:
    """The GPU that vLLM would take, None where there is none or its driver does not tell. Asks once a process.

    The driver's own program tells its size; where that is not there, the kernel module tells at least its name.
    """
    if not _DRIVER.exists():
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    chosen = [f"--id={visible}"] if re.fullmatch(r"\d+|GPU-[\w-]+", visible) else []
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits", *chosen],
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
            check=True,
        ).stdout
        name, _, mebibytes = said.splitlines()[0].rpartition(",")
        return Card(name.strip(), _without_reserve(float(mebibytes) / 1024))
    except (OSError, subprocess.SubprocessError, LookupError, ValueError):
        return _card_of_module()


def memory_of_machine_gib() -> float:
    """Memory of this machine, or what its container may take."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(pages, int(_CGROUP_LIMIT.read_text())) / GIB
    except (OSError, ValueError):  # no limit is written as `max`
        return pages / GIB


def _card_of_module() -> Card | None:
    for path in sorted(_DRIVER.glob("gpus/*/information")):
        model = re.search(r"^Model:\s*(.+)$", path.read_text(errors="replace"), re.MULTILINE)
        if model and _gigabytes(model.group(1)) is not None:
            return named_card(model.group(1))
    return None


def _gigabytes(name: str) -> float | None:
    """By the product's name; one with its size in it ("A100 40GB") is taken at its word."""
    if written := re.search(r"(\d+)\s*GB", name, re.IGNORECASE):
        return float(written.group(1))
    for known, gigabytes in _GB_BY_NAME.items():
        if re.search(rf"(?<![A-Z0-9]){known}(?![0-9A-Z])", name.upper()):
            return gigabytes
    return None


def _seen_gib(gigabytes: float) -> float:
    for (low, seen_low), (high, seen_high) in pairwise(_SEEN):
        if gigabytes <= high:
            return seen_low + (seen_high - seen_low) * (gigabytes - low) / (high - low)
    return gigabytes * _SEEN[-1][1] / _SEEN[-1][0]


def _without_reserve(gib: float) -> float:
    """The driver keeps some for itself: 0.24 GiB of 12, 0.35 of 24, 0.6 of 140."""
    return gib - max(0.3, 0.0043 * gib)
