"""Decides how the chats' database is reached: SQLite under the home or PostgreSQL, one writer at a time, in order.

Chainlit starts its writes side by side and lets them race; here each waits for the one that was asked for before it, so
that a message can't be overtaken by its own removal. Those that wait are kept together, since a transaction costs more
than what is written in it. What fails becomes a `Problem` without the password in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from app.history.schema import bring_up_to_date
from app.problem import DISK_ADVICE, Problem
from engine.cachefile import write_ahead

T = TypeVar("T")
SQLITE = "sqlite"
FILE = "chats.sqlite3"
# How long a writer waits for another process that writes.
BUSY_S = 10.0
CONNECT_S = 10


@dataclass(frozen=True)
class _Write:
    work: Callable[[Connection], Any]
    done: asyncio.Future[Any]


@dataclass(frozen=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


class Database:
    """One home's chats. Opens by itself with the first use; for one event loop.

    What reads or writes is a function of a connection; it runs in a thread, in a transaction of its own or with others.

    Args:
        setting: `sqlite`, or postgresql://user:password@host/database.
    """

    def __init__(self, setting: str, home: Path) -> None:
        self.is_sqlite = setting == SQLITE
        self.file = home / FILE
        self.engine = _sqlite(self.file) if self.is_sqlite else _postgresql(setting)
        self._writer = ThreadPoolExecutor(1, "chats")
        self._waiting: list[_Write] = []
        self._writing: asyncio.Task[None] | None = None
        self._last: asyncio.Future[Any] | None = None
        self._is_open = False
        self._where = f"in {self.file}" if self.is_sqlite else f"on {self.engine.url.host or 'the PostgreSQL server'}"

    @property
    def is_writing(self) -> bool:
        """Whether something was asked for that is not kept yet."""
        return self._writing is not None

    async def open(self) -> None:
        """Makes the tables, or brings them up to date; does nothing the second time.

        Raises:
            Problem: `history_unreachable`, `newer_history`, `history_client_missing`.
        """
        if not self._is_open:
            await self.write(lambda connection: None)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` reads, of one state of all tables.

        Raises:
            Problem: As `open`.
        """
        await self.open()
        return await asyncio.to_thread(self._read, work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Does `work` after all that was asked for before, and returns once it is kept: all of it, or nothing.

        Args:
            work: May be called a second time, where something that was to be kept with it failed.

        Raises:
            Problem: As `open`.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Write(work, done))
        self._last = done
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_what_waits())
        return await asyncio.shield(done)  # Who goes meanwhile, as with Stop, leaves it to be kept.

    async def settled(self) -> None:
        """Returns when all writes that were asked for before have ended."""
        await asyncio.sleep(0)  # Tasks that were made a moment ago get as far as the queue.
        if self._last is not None:
            await asyncio.wait([self._last])

    async def close(self) -> None:
        """Closes what is open; a chat that still ends is kept all the same."""
        await asyncio.to_thread(self.engine.dispose)

    async def _write_what_waits(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                works = [write.work for write in together]
                outcomes = await asyncio.get_running_loop().run_in_executor(self._writer, self._keep, works)
                for write, outcome in zip(together, outcomes, strict=True):
                    if outcome.error is not None:
                        write.done.set_exception(outcome.error)
                    else:
                        write.done.set_result(outcome.value)
        finally:
            self._writing = None

    def _keep(self, works: Sequence[Callable[[Connection], Any]]) -> list[_Outcome]:
        """All in one transaction; where that fails each in its own, so that one takes no other along."""
        try:
            self._open()
            with self._told(), self._transaction(writing=True) as connection:
                return [_Outcome(work(connection)) for work in works]
        except Exception as error:
            if len(works) == 1 or not self._is_open:
                return [_Outcome(error=error) for _ in works]
        return [outcome for work in works for outcome in self._keep([work])]

    def _read(self, work: Callable[[Connection], T]) -> T:
        with self._told(), self._transaction(writing=False) as connection:
            return work(connection)

    def _open(self) -> None:
        if self._is_open:
            return
        with self._told():
            if self.is_sqlite:
                self.file.parent.mkdir(parents=True, exist_ok=True)
            with self._transaction(writing=True) as connection:
                if not self.is_sqlite:  # Two servers may start at once.
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7263001)")
                bring_up_to_date(connection)
            if self.is_sqlite:
                self.file.chmod(0o600)
        self._is_open = True

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            connection.execution_options(readonce_writes=writing)
            with connection.begin():
                yield connection

    def _told(self) -> _Told:
        return _Told(self._where, self.is_sqlite)


class _Told:
    """Turns what the database's client raises into a `Problem`."""

    def __init__(self, where: str, is_file: bool) -> None:
        self.where, self.is_file = where, is_file

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SQLAlchemyError | OSError):
            original = error.orig if isinstance(error, DBAPIError) else error
            why = " ".join(str(original).split())[:200] or type(original).__name__
            advice = DISK_ADVICE if self.is_file else "check that the server runs and lets this user in."
            raise Problem("history_unreachable", f"The chats {self.where} can't be used ({why}): {advice}") from error


def _sqlite(file: Path) -> Engine:
    engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": BUSY_S}, hide_parameters=True, pool_size=5)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        # Python's own way of beginning comes too late for a reader that goes on to write.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        write_ahead(cursor, BUSY_S)
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("readonce_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql(setting: str) -> Engine:
    try:
        url = make_url(setting).set(drivername="postgresql+psycopg")
        return create_engine(url, connect_args={"connect_timeout": CONNECT_S}, hide_parameters=True, pool_pre_ping=True)
    except ArgumentError as error:
        raise Problem(
            "bad_setting", "The setting history is no address: postgresql://user:password@host/database.", usage=True
        ) from error
    except ImportError as error:
        raise Problem(
            "history_client_missing",
            f"The chats are to be in PostgreSQL, and its client is missing ({error}): run `pip install"
            " 'readonce[postgresql]'`, or set history to sqlite.",
        ) from error
