"""Decides how the chats' database is reached: SQLite under the home or PostgreSQL, one writer at a time, in order.

Chainlit starts its writes side by side and lets them race; here each waits for the one that was asked for before it, so
that a message can't be overtaken by its own removal. What fails becomes a `Problem` without the password in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.history.schema import bring_up_to_date
from app.problem import DISK_ADVICE, Problem

SQLITE = "sqlite"
FILE = "chats.sqlite3"
# How long a writer waits for another process that writes.
BUSY_S = 10.0
CONNECT_S = 10


class Database:
    """One home's chats. Opens by itself with the first use; for one event loop.

    Args:
        setting: `sqlite`, or postgresql://user:password@host/database.
    """

    def __init__(self, setting: str, home: Path) -> None:
        self.is_sqlite = setting == SQLITE
        self.file = home / FILE
        self.engine = _sqlite(self.file) if self.is_sqlite else _postgresql(setting)
        self._in_order = asyncio.Lock()
        self._is_open = False
        self._where = f"in {self.file}" if self.is_sqlite else f"on {self.engine.url.host or 'the PostgreSQL server'}"

    async def open(self) -> None:
        """Makes the tables, or brings them up to date; does nothing the second time.

        Raises:
            Problem: `history_unreachable`, `newer_history`, `history_client_missing`.
        """
        if not self._is_open:
            async with self._in_order:
                await self._open()

    async def _open(self) -> None:
        if self._is_open:
            return
        with self._told():
            if self.is_sqlite:
                await asyncio.to_thread(self.file.parent.mkdir, parents=True, exist_ok=True)
            async with self._transaction(writing=True) as connection:
                if not self.is_sqlite:  # Two servers may start at once.
                    await connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7263001)")
                await connection.run_sync(bring_up_to_date)
        if self.is_sqlite:
            await asyncio.to_thread(self.file.chmod, 0o600)
        self._is_open = True

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read with.

        Raises:
            Problem: As `open`.
        """
        await self.open()
        with self._told():
            async with self._transaction(writing=False) as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: all of it is kept, or nothing. Those that wait get it in the order in which they came.

        Raises:
            Problem: As `open`.
        """
        async with self._in_order:
            await self._open()
            with self._told():
                async with self._transaction(writing=True) as connection:
                    yield connection

    async def settled(self) -> None:
        """Returns when all writes that were asked for before have ended."""
        await asyncio.sleep(0)  # Tasks that were made a moment ago get as far as the queue.
        async with self._in_order:
            return

    async def close(self) -> None:
        await self.engine.dispose()

    @asynccontextmanager
    async def _transaction(self, *, writing: bool) -> AsyncIterator[AsyncConnection]:
        async with self.engine.connect() as connection:
            await connection.execution_options(readonce_writes=writing)
            async with connection.begin():
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


def _sqlite(file: Path) -> AsyncEngine:
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{file}", connect_args={"timeout": BUSY_S}, hide_parameters=True, pool_size=5
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        # Python's own way of beginning comes too late for a reader that goes on to write.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("foreign_keys=ON", "journal_mode=WAL", "synchronous=NORMAL"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("readonce_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql(setting: str) -> AsyncEngine:
    try:
        url = make_url(setting).set(drivername="postgresql+psycopg")
        return create_async_engine(
            url, connect_args={"connect_timeout": CONNECT_S}, hide_parameters=True, pool_pre_ping=True
        )
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
