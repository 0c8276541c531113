"""Decides how registered prefixes are kept on disk: their facts in SQLite, their ids in one file each.

Several servers may share the folder. Whatever changes, a row or a file, changes inside one transaction that the others
wait for: nobody finds a row without its file, and no count is lost. What is broken here is dropped: its owner registers
it again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from engine.base import EngineError, prefix_id
from engine.cachefile import CacheFile

T = TypeVar("T")
TokenIds = npt.NDArray[np.int32]

BYTES_PER_TOKEN = 4
SHELF_NAME = "prefixes.sqlite"
_SUFFIX = ".i32"
_FUTURE_S = 60.0
_COLUMNS = (
    "id, namespace, name, num_tokens, ttl_s, pinned, generation, created, renewed, last_used, hits, kept, sessions"
)
_FLAGS = [index for index, name in enumerate(_COLUMNS.split(", ")) if name in ("pinned", "kept")]
_NUMBERS = [
    index
    for index, name in enumerate(_COLUMNS.split(", "))
    if name in ("num_tokens", "ttl_s", "created", "renewed", "last_used", "hits")
]
_TTL = _COLUMNS.split(", ").index("ttl_s")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS prefixes (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, num_tokens INTEGER NOT NULL, ttl_s REAL,
    pinned INTEGER NOT NULL, generation TEXT NOT NULL, created REAL NOT NULL, renewed REAL NOT NULL,
    last_used REAL NOT NULL, hits INTEGER NOT NULL, kept INTEGER NOT NULL, sessions TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_last_use ON prefixes (last_used);
CREATE TABLE IF NOT EXISTS freed (id TEXT PRIMARY KEY, generation TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Facts:
    """What is known of a registered prefix besides its ids. Times are Unix seconds.

    Attributes:
        ttl_s: How long it lives after it was last renewed (registered, used, or given a time); None: for ever.
        generation: Of its salt: not empty for one that was freed and came back.
        hits: How many questions used it.
        kept: False where it came by sessions only, and goes with the last of them.
    """

    id: str
    namespace: str
    name: str
    num_tokens: int
    ttl_s: float | None
    pinned: bool
    generation: str
    created: float
    renewed: float
    last_used: float
    hits: int
    kept: bool
    sessions: tuple[str, ...]

    @property
    def expires_at(self) -> float | None:
        return None if self.ttl_s is None else self.renewed + self.ttl_s

    def is_alive(self, now: float) -> bool:
        return self.ttl_s is None or now < self.renewed + self.ttl_s


class Rows:
    """The shelf inside one transaction; not to be kept beyond it."""

    def __init__(self, connection: sqlite3.Connection, folder: Path) -> None:
        self._connection = connection
        self._folder = folder

    def get(self, handle: str) -> Facts | None:
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM prefixes WHERE id = ?", (handle,)).fetchone()
        return None if row is None else _facts(row)

    def all(self) -> list[Facts]:
        """The least recently used first."""
        return self._where("1")

    def pinned(self) -> list[Facts]:
        """The least recently used first; expired ones too."""
        return self._where("pinned")

    def expired(self, now: float) -> list[Facts]:
        """Those that do not live any more (`Facts.is_alive`)."""
        return self._where("renewed + ttl_s <= ?", now)

    def _where(self, condition: str, *values: float) -> list[Facts]:
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM prefixes WHERE {condition} ORDER BY last_used, id", values
        )
        return [_facts(row) for row in rows]

    def put(self, facts: Facts) -> None:
        values = astuple(facts)
        marks = ", ".join("?" * len(values))
        self._connection.execute(
            f"INSERT OR REPLACE INTO prefixes ({_COLUMNS}) VALUES ({marks})", (*values[:-1], json.dumps(facts.sessions))
        )

    def renew(self, handle: str, now: float, num_hits: int) -> None:
        """Counts questions; times never run backwards, whichever of several servers comes last."""
        self._connection.execute(
            "UPDATE prefixes SET hits = hits + ?1, last_used = max(last_used, ?2), renewed = max(renewed, ?2) "
            "WHERE id = ?3",
            (num_hits, now, handle),
        )

    def not_after(self, now: float) -> None:
        """The clock was set back: what was used in its future was used now, and lives its time from now on.

        A few seconds are left alone: servers that share the folder do not ask the clock at the same moment.
        """
        self._connection.execute(
            "UPDATE prefixes SET renewed = min(renewed, ?1), last_used = min(last_used, ?1) "
            "WHERE max(renewed, last_used) > ?1 + ?2",
            (now, _FUTURE_S),
        )

    def delete(self, handle: str, *, keeps_ids: bool = False) -> None:
        """Args: `keeps_ids`, leaves the file to `remove_ids`: a question that waits is still to be answered from it."""
        self._connection.execute("DELETE FROM prefixes WHERE id = ?", (handle,))
        if not keeps_ids:
            self.remove_ids(handle)

    def remove_ids(self, handle: str) -> None:
        self._path(handle).unlink(missing_ok=True)

    def total(self) -> tuple[int, int]:
        """Number of handles, number of their tokens."""
        count, tokens = self._connection.execute(
            "SELECT count(*), coalesce(sum(num_tokens), 0) FROM prefixes"
        ).fetchone()
        return int(count), int(tokens)

    def generation(self, handle: str) -> str:
        """Of the salt that it gets if it comes (back) now."""
        row = self._connection.execute("SELECT generation FROM freed WHERE id = ?", (handle,)).fetchone()
        return "" if row is None else str(row[0])

    def turn_over(self, handle: str, generation: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO freed VALUES (?, ?)", (handle, generation))

    def write_ids(self, handle: str, token_ids: TokenIds) -> None:
        path = self._path(handle)
        aside = path.with_suffix(".new")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(np.asarray(token_ids, dtype="<i4").tobytes())
        aside.replace(path)

    def has_ids(self, facts: Facts) -> bool:
        """Whether a file of the right length is there."""
        try:
            return self._path(facts.id).stat().st_size == facts.num_tokens * BYTES_PER_TOKEN
        except OSError:
            return False

    def read_ids(self, facts: Facts) -> TokenIds | None:
        """None where the file is missing, cannot be read or holds other ids. The array is read-only."""
        try:
            token_ids = np.fromfile(self._path(facts.id), dtype="<i4").astype(np.int32, copy=False)
        except OSError:
            return None
        token_ids.setflags(write=False)
        return token_ids if prefix_id(facts.namespace, token_ids) == facts.id else None

    def remove_strays(self) -> None:
        """Files that no row speaks of: what a process that was killed left behind."""
        known = {facts.id for facts in self.all()}
        for path in self._folder.iterdir():
            if path.suffix == ".new" or (path.suffix == _SUFFIX and path.stem not in known):
                path.unlink(missing_ok=True)

    def _path(self, handle: str) -> Path:
        return self._folder / f"{handle}{_SUFFIX}"


class Shelf:
    """A folder of prefixes.

    Args:
        folder: Made where missing; only its owner may look into it, for the ids are documents.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = CacheFile(folder / SHELF_NAME, _SCHEMA)

    def run(self, work: Callable[[Rows], T]) -> T:
        """Runs `work` in one transaction; where it raises, no row has changed. It may be run twice.

        Raises:
            EngineError: `state_unusable` where the disk or its rights refuse.
        """
        return self._with(self._file.run, work)

    def look(self, work: Callable[[Rows], T]) -> T:
        """As `run`, outside a transaction: for work that reads one row, several times as quick.

        Raises:
            EngineError: `state_unusable`.
        """
        return self._with(self._file.look, work)

    def _with(self, use: Callable[[Callable[[sqlite3.Connection], T]], T], work: Callable[[Rows], T]) -> T:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return use(lambda connection: work(Rows(connection, self._folder)))
        except (OSError, sqlite3.Error) as error:
            raise EngineError(
                "state_unusable",
                f"The folder {self._folder} of the registered prefixes can't be used ({error}); "
                "check its rights and the space there.",
            ) from error

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._file.close()


def _facts(row: tuple[Any, ...]) -> Facts:
    values = list(row)
    for index in _FLAGS:
        values[index] = bool(values[index])
    try:
        values[-1] = tuple(str(session) for session in json.loads(values[-1]))
        for index in _NUMBERS:
            may_be_unsaid = index == _TTL and values[index] is None
            if not may_be_unsaid and not isinstance(values[index], int | float):
                raise TypeError(f"{_COLUMNS.split(', ')[index]} is {values[index]!r}")
    except (ValueError, TypeError) as error:
        # SQLite keeps any value in any column; as for a page that does not read, the file is begun anew.
        raise sqlite3.DatabaseError(f"a row does not read: {error}") from error
    return Facts(*values)
