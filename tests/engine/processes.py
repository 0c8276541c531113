"""Looks at the machine's processes for the tests that assert that none is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def pids_of_group(group: int) -> set[int]:
    """Processes of a process group that still run (a zombie does not)."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[2]) == group:
            found.add(int(stat.parent.name))
    return found


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether `condition` comes true within so many seconds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
