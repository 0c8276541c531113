"""Decides how a process that reads a stranger's file is started, heard and stopped; it says JSON, a line each."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


class Child:
    """A reading process. `next` gives what it says; the process ends with the `with` block that opened it."""

    def __init__(self, lines: queue.SimpleQueue[bytes | None]) -> None:
        self._lines = lines

    def next(self, seconds: float) -> dict[str, Any] | None:
        """The next thing said; None where the process has ended, however it did.

        Raises:
            TimeoutError: Nothing came for `seconds`.
        """
        try:
            line = self._lines.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return None
        message = json.loads(line)
        assert isinstance(message, dict)
        return message


@contextmanager
def child(module: str, arguments: Sequence[str]) -> Iterator[Child]:
    """Runs `python -m module arguments` until the block is left."""
    package_parent = str(Path(__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "PYTHONPATH": package_parent if not inherited else os.pathsep.join([package_parent, inherited]),
        "PYTHONUTF8": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        assert process.stdout is not None
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        # In a thread, so that waiting for the next line can end.
        pump = threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True)
        pump.start()
        try:
            yield Child(lines)
        finally:
            process.kill()
            pump.join()


def _pump(pipe: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    """Hands on the process's output line by line as it comes, None at its end."""
    for line in pipe:
        # A crash may cut the last line short.
        if line.endswith(b"\n"):
            lines.put(line)
    lines.put(None)
