"""Decides how people, bases, rights, keys and the audit log are kept: a few tables, in SQLite or in PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from app.problem import Problem

if TYPE_CHECKING:
    from sqlalchemy import Engine

T = TypeVar("T")

VERSION = 1
# Answers of a few kinds for each person; some MB.
MOST_REMEMBERED = 20_000
FILE_NAME = "people.sqlite3"
# How long one waits for another process that writes.
BUSY_S = 60
_TABLES = MetaData()


def _of(table: str, **more: Any) -> Column[Any]:
    return Column(table, String, ForeignKey(f"{_PLACES[table]}.name", ondelete="CASCADE"), **more)


# What a column of that name refers to.
_PLACES = {"person": "people", "team": "teams", "kb": "bases"}

meta = Table("library_meta", _TABLES, Column("version", Integer, nullable=False))
people = Table(
    "people",
    _TABLES,
    Column("name", String, primary_key=True),
    Column("password_hash", String),
    Column("origin", String, nullable=False),
    Column("admin", Boolean, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("session", Integer, nullable=False),
)
teams = Table("teams", _TABLES, Column("name", String, primary_key=True))  # GROUPS is a word of SQL
team_members = Table("team_members", _TABLES, _of("team", primary_key=True), _of("person", primary_key=True))
bases = Table("bases", _TABLES, Column("name", String, primary_key=True), Column("public", Boolean, nullable=False))
person_roles = Table(
    "person_roles",
    _TABLES,
    _of("kb", primary_key=True),
    _of("person", primary_key=True),
    Column("role", String, nullable=False),
)
team_roles = Table(
    "team_roles",
    _TABLES,
    _of("kb", primary_key=True),
    _of("team", primary_key=True),
    Column("role", String, nullable=False),
)
keys = Table(
    "api_keys",
    _TABLES,
    Column("id", String, primary_key=True),
    Column("digest", String, nullable=False, unique=True),
    _of("person", nullable=False),
    Column("label", String, nullable=False),
    Column("made_at", Float, nullable=False),
)
links = Table(
    "links",
    _TABLES,
    Column("digest", String, primary_key=True),
    _of("person", nullable=False, unique=True),
    Column("ends_at", Float, nullable=False),
)
attempts = Table(
    "attempts",
    _TABLES,
    Column("id", Integer, primary_key=True),
    Column("subject", String, nullable=False),
    Column("at", Float, nullable=False),
    Index("attempts_by_subject", "subject", "at"),
)
audit = Table(
    "audit",
    _TABLES,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("who", String, nullable=False),
    Column("what", String, nullable=False),
    Column("about", String, nullable=False),
    Column("detail", String, nullable=False),
)
# The program only ever adds lines; the database refuses the rest to every other program too.
_APPEND_ONLY = {
    "sqlite": [
        f"CREATE TRIGGER audit_no_{deed} BEFORE {deed} ON audit "
        "BEGIN SELECT RAISE(ABORT, 'the audit log can only grow'); END"
        for deed in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'the audit log can only grow'; END$$",
        "CREATE TRIGGER audit_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
    ],
}


class Records:
    """The tables, opened. Safe for several threads and processes; all of it blocks: call it in a thread.

    Args:
        clock: Unix time in seconds.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self.clock = clock
        self._looking: sqlite3.Connection | None = None
        self._remembered: dict[Hashable, object] = {}
        self._as_of: int | None = None
        self._lock = threading.Lock()
        with _told():
            self._prepare()

    @classmethod
    def open(cls, home: Path, url: str | None = None, clock: Callable[[], float] = time.time) -> Records:
        """Opens them in `home`, or where `url` says; makes them where they are missing.

        Args:
            url: postgresql://user:password@host/database.

        Raises:
            Problem: `people_unusable`, `people_version`.
        """
        if url is not None:
            with _told():
                made = make_url(url).set(drivername="postgresql+psycopg")
                engine = create_engine(made, pool_pre_ping=True)
            return cls(engine, clock)
        home.mkdir(parents=True, exist_ok=True)
        path = home / FILE_NAME
        # Password hashes lie in it: made before SQLite does, for its owner alone.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_S})
        event.listen(engine, "connect", _obey_foreign_keys)
        return cls(engine, clock)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, rolled back where an error leaves it.

        Raises:
            Problem: `people_unusable`.
        """
        with _told(), self._engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                # The driver begins at the first write; what was read before it could be old by then.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One state of all tables, without keeping writers waiting."""
        with _told(), self._engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            yield connection

    def remembered(self, key: Hashable, read: Callable[[Connection], T]) -> T:
        """What `read` finds in the tables as they are now; from memory where nobody has written since it was read.

        Args:
            key: Names what is read, and all that it depends on beside the tables.
            read: Gives what nobody changes afterwards.
        """
        as_of = self._state()
        with self._lock:
            if as_of != self._as_of or len(self._remembered) >= MOST_REMEMBERED:
                self._remembered, self._as_of = {}, as_of
            if key in self._remembered:
                return cast("T", self._remembered[key])
        with self.reading() as connection:
            found = read(connection)
        with self._lock:
            # What was read is at least as new as `as_of`: a write since then has changed the number.
            if as_of is not None and as_of == self._as_of:
                self._remembered[key] = found
        return found

    def _state(self) -> int | None:
        """Another number after each write of whatever process; None where the database does not tell."""
        path = self._engine.url.database
        if self._engine.dialect.name != "sqlite" or not path:
            return None
        with _told(), self._lock:
            if self._looking is None:
                # SQLite counts the writes of all connections but the one that asks: this one never writes.
                self._looking = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
            return int(self._looking.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        with self._lock:
            if self._looking is not None:
                self._looking.close()
                self._looking = None
        self._engine.dispose()

    def _prepare(self) -> None:
        with self.transaction() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(7256001)"))  # two programs' first start
            if not inspect(connection).has_table(meta.name):
                _TABLES.create_all(connection)
                for statement in _APPEND_ONLY[connection.dialect.name]:
                    connection.exec_driver_sql(statement)
                connection.execute(insert(meta).values(version=VERSION))
            found = connection.execute(select(meta.c.version)).scalar_one()
        if found != VERSION:
            raise Problem(
                "people_version",
                f"The people and rights have format {found}, this program reads {VERSION}: use the one that made them.",
            )


def _obey_foreign_keys(connection: Any, record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")


@contextmanager
def _told() -> Iterator[None]:
    """What a database refuses, in one sentence without its address, which may hold a password."""
    try:
        yield
    except ArgumentError as error:
        raise Problem(
            "people_unusable", "READONCE_PEOPLE_DATABASE is no address like postgresql://user:password@host/database."
        ) from error
    except ModuleNotFoundError as error:
        raise Problem(
            "not_installed", f"For PostgreSQL {error.name} is missing: pip install 'readonce[postgresql]'."
        ) from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        said = " ".join(str(getattr(error, "orig", None) or type(error).__name__).split())
        raise Problem(
            "people_unusable",
            f"The people and rights can't be used ({said}): check the database, its rights and its space.",
        ) from error
