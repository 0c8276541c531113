"""Decides what a process costs while people use it: memory, CPU time, and how long it waited for a core."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

LOOK_S = 5.0


@dataclass
class Cost:
    """Of one process.

    Attributes:
        memory_mb: One sample each `LOOK_S`, with its time on the monotonic clock.
        cpu_s: CPU time since it was first looked at, of all its threads.
        waited_s: How long its threads could have run and had no core, since then; None where the kernel does not tell.
        loads: The machine's load average of a minute, one a sample.
    """

    memory_mb: list[tuple[float, float]] = field(default_factory=list)
    cpu_s: float = 0.0
    waited_s: float | None = None
    loads: list[float] = field(default_factory=list)


async def watch(pid: int, stop: asyncio.Event) -> Cost:
    """Looks until `stop` is set."""
    import psutil

    process = psutil.Process(pid)
    cost = Cost()
    began, waits = _cpu_s(process), _waits(pid)
    while not stop.is_set():
        cost.memory_mb.append((time.monotonic(), process.memory_info().rss / 1e6))
        cost.loads.append(os.getloadavg()[0])
        cost.cpu_s = _cpu_s(process) - began
        # A thread that has ended takes its count along, hence the growth of each.
        now = _waits(pid)
        grown = sum(max(0.0, wait - waits.get(thread, 0.0)) for thread, wait in now.items())
        cost.waited_s = (cost.waited_s or 0.0) + grown if now else None
        waits = now
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_S)
    return cost


def _cpu_s(process: object) -> float:
    times = process.cpu_times()  # type: ignore[attr-defined]  # psutil has no types
    return float(times.user + times.system)


def _waits(pid: int) -> dict[str, float]:
    """Seconds in the run queue of each thread, from the kernel's second figure."""
    waits = {}
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            waits[thread.name] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    return waits
