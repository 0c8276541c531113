"""Decides who has a home open: each opener holds a shared lock, so that the first one after a crash knows it is alone.

The kernel lets go of a lock when its process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ingest.document import IngestError

LOCK_NAME = "in-use.lock"


class Occupancy:
    """One opener's hold on a home, until `close` or the end of its process.

    Attributes:
        alone: Nobody else has the home open, and nobody gets in before `share`.
    """

    def __init__(self, home: Path) -> None:
        self._file, self.alone = _entered(home / LOCK_NAME)

    def share(self) -> None:
        """Lets others in."""
        if self._file is not None and self.alone:
            fcntl.flock(self._file, fcntl.LOCK_SH)
        self.alone = False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@contextmanager
def emptied(home: Path) -> Iterator[None]:
    """Keeps everybody out of a home while another one is put in its place; whoever waits finds the other one.

    Raises:
        IngestError: `home_in_use`.
    """
    with (home / LOCK_NAME).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IngestError(
                "home_in_use", f"Another readonce has {home} open: end it (a page that is served, too), then try again."
            ) from None
        yield


def _entered(path: Path) -> tuple[IO[bytes] | None, bool]:
    while True:
        try:
            file = path.open("ab")
        except PermissionError:
            return None, False  # a home that can only be read: nothing can be cleared up in it either
        alone = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
            fcntl.flock(file, fcntl.LOCK_SH)  # waits only while one clears up, or a home is put in this one's place
        if _is_there(file, path):
            return file, alone
        file.close()


def _is_there(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
