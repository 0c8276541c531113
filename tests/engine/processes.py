"""Starts processes that hold an engine, and looks whether any is left, for the tests that assert that none is."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.server import EngineSettings

HERE = Path(__file__).parent
Hold = Callable[[EngineSettings], subprocess.Popen[str]]


@contextlib.contextmanager
def holding(*program: str) -> Iterator[Hold]:
    """Starts processes that connect and so hold a lease; kills at the end what still runs.

    Args:
        program: What such a process starts as its engine; vLLM where none is given.
    """
    holders: list[subprocess.Popen[str]] = []

    def start(settings: EngineSettings) -> subprocess.Popen[str]:
        values = json.dumps(vars(settings), default=str)
        holder = subprocess.Popen(
            [sys.executable, str(HERE / "holder.py"), values, *program],
            env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        holders.append(holder)
        return holder

    yield start
    for holder in holders:
        holder.kill()
        holder.communicate()


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
