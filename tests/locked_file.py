"""A new SQLite file that another process writes, until whoever waits for it has been refused so many times."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class LockedFile:
    """`sleep` stands in for the pause between two tries.

    Attributes:
        waits: Seconds of each pause so far.
    """

    def __init__(self, path: Path, refusals: int) -> None:
        self.waits: list[float] = []
        self._refusals = refusals
        self._other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._other.execute("BEGIN IMMEDIATE")

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) == self._refusals:
            self._other.execute("COMMIT")
            self._other.close()
