"""Decides how a file of remembered values is opened: SQLite, for several processes, thrown away where it is broken.

Only for what can be made again. Nothing that a person entrusted to us lives in such a file.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_WAIT_FOR_OTHERS_S = 10.0
_ASK_AGAIN_S = 0.02


class CacheFile:
    """A SQLite file with one schema. Safe for several threads and processes.

    Args:
        path: Made with its folders where missing; None keeps everything in memory.
        schema: `CREATE TABLE IF NOT EXISTS ...` statements.
    """

    def __init__(self, path: Path | None, schema: str) -> None:
        self._path = path
        self._schema = schema
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @classmethod
    def run_where_there_is_one(cls, path: Path, schema: str, work: Callable[[sqlite3.Connection], None]) -> None:
        """As `run`; no file is made where there is none."""
        if not path.exists():
            return
        file = cls(path, schema)
        try:
            file.run(work)
        finally:
            file.close()

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in one transaction; on a broken file, starts a new one and runs it once more."""
        return self._run(work, self._transaction)

    def look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """As `run`, outside a transaction: for one statement that reads."""
        return self._run(work, self._opened)

    def _run(
        self,
        work: Callable[[sqlite3.Connection], T],
        connected: Callable[[], AbstractContextManager[sqlite3.Connection]],
    ) -> T:
        with self._lock:
            try:
                with connected() as connection:
                    return work(connection)
            except sqlite3.OperationalError:
                raise  # locked, disk full, not permitted: the file is not to blame
            except sqlite3.DatabaseError:
                if self._path is None:
                    raise
                self._start_anew(self._path)
                with connected() as connection:
                    return work(connection)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        yield self._connection or self._open()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection or self._open()
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def _open(self) -> sqlite3.Connection:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path or ":memory:", timeout=_WAIT_FOR_OTHERS_S, check_same_thread=False, isolation_level=None
        )
        self._connection = connection
        write_ahead(connection, _WAIT_FOR_OTHERS_S)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA secure_delete=ON")  # what is deleted may be a removed document's
        connection.executescript(self._schema)
        return connection

    def _start_anew(self, path: Path) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def write_ahead(connection: Any, wait_s: float) -> None:
    """Has a file keep its changes in a log, so that readers and a writer do not wait for each other.

    SQLite refuses that at once while another process writes, however long a connection waits else: a second server that
    starts at the same moment asks again.

    Args:
        connection: Of `sqlite3`, in autocommit, or a cursor of it.

    Raises:
        sqlite3.Error: What SQLite says after `wait_s` seconds, or where nobody is in the way.
    """
    end_s = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end_s:
                raise
        time.sleep(_ASK_AGAIN_S)
