"""Decides why a prefix was read again: remembers each prefix's name, its engine, its last use and its cold price."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.base import ColdBecause, Prefix
from engine.cachefile import CacheFile

# `last_use` is when a question ended, in Unix seconds, and `cold_because` why it was cold, if it was or may have been.
# What an earlier version kept had none, and goes.
_SCHEMA = """
DROP TABLE IF EXISTS prefixes;
CREATE TABLE IF NOT EXISTS asked (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, instance TEXT NOT NULL, last_use REAL NOT NULL, cold_first_token_ms REAL,
    cold_because TEXT
);
CREATE INDEX IF NOT EXISTS asked_by_name ON asked (name);
"""
# Of what was freed, in the place of the engine's life that held it.
_NO_INSTANCE = ""
# A server that does not say how large its blocks are: the largest default (vLLM on CPU).
_UNKNOWN_BLOCK_SIZE = 128
# A few blocks lost at the end of a long prefix are not worth a word.
_NEARLY = 0.95
# Below this share of cached tokens the first token's time is that of a cold read (the instructions are always shared).
_COLD = 0.5


@dataclass(frozen=True)
class Verdict:
    """`cold_because` and `cold_first_token_ms` of `Receipt`."""

    cold_because: ColdBecause | None
    cold_first_token_ms: float | None


class Ledger:
    """Remembers prefixes, for several processes at once.

    Args:
        path: The SQLite file; None keeps it in memory.
        knows: Whether a name is of something that is there: what is read to its end after its document was removed
            is not remembered. Asked while the file is locked, so that whoever removes first and then forgets is sure.
    """

    def __init__(self, path: Path | None = None, knows: Callable[[str], bool] = lambda name: True) -> None:
        self._file = CacheFile(path, _SCHEMA)
        self._knows = knows

    def settle(
        self,
        prefix: Prefix,
        *,
        instance: str,
        cached_tokens: int | None,
        first_token_ms: float | None,
        began_s: float,
        block_size: int | None = None,
    ) -> Verdict:
        """Judges a finished or stopped request by what is remembered, then remembers it.

        Args:
            began_s: When it was asked, in Unix seconds: who waited for somebody else's read was cold for their reason.
            instance: The engine's life: another one after each start.
            cached_tokens: None where the engine did not report, or was stopped before it could.
            first_token_ms: None where no token came; the prefix then does not count as read.
            block_size: Tokens in a block; None where the server does not say.
        """

        def settle(connection: sqlite3.Connection) -> Verdict:
            verdict = _settle(connection, prefix, instance, cached_tokens, first_token_ms, began_s, block_size)
            if not self._knows(prefix.name):
                connection.execute("DELETE FROM asked WHERE id = ?", (prefix.id,))
            return verdict

        return self._file.run(settle)

    def forget(self, is_meant: Callable[[str, str], bool]) -> None:
        """Forgets the prefixes whose (handle, name) is meant: the next question about one is its first use."""

        def forget(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM asked WHERE id = ?", _meant(connection, is_meant))

        self._file.run(forget)

    def let_go(self, is_meant: Callable[[str, str], bool]) -> None:
        """The prefixes whose (handle, name) is meant were freed on purpose: nothing took their place."""

        def free(connection: sqlite3.Connection) -> None:
            meant = _meant(connection, is_meant)
            connection.executemany(f"UPDATE asked SET instance = '{_NO_INSTANCE}' WHERE id = ?", meant)

        self._file.run(free)

    def close(self) -> None:
        self._file.close()


def _meant(connection: sqlite3.Connection, is_meant: Callable[[str, str], bool]) -> list[tuple[str]]:
    rows = connection.execute("SELECT id, name FROM asked").fetchall()
    return [(handle,) for handle, name in rows if is_meant(handle, name)]


def _settle(
    connection: sqlite3.Connection,
    prefix: Prefix,
    instance: str,
    cached_tokens: int | None,
    first_token_ms: float | None,
    began_s: float,
    block_size: int | None,
) -> Verdict:
    row = connection.execute(
        "SELECT instance, cold_first_token_ms, last_use, cold_because FROM asked WHERE id = ?", (prefix.id,)
    ).fetchone()
    seen_in, cold_ms, last_use_s, their_because = row if row is not None else (None, None, 0.0, None)
    reusable = _num_reusable(prefix, block_size)
    where_cold: ColdBecause
    if seen_in is None:
        where_cold = "changed" if _has_other(connection, prefix) else "first_use"
    elif seen_in == _NO_INSTANCE:
        where_cold = "freed"
    elif seen_in == instance:
        where_cold = their_because if their_because is not None and last_use_s >= began_s else "evicted"
    else:
        where_cold = "restarted"
    because: ColdBecause | None = where_cold
    if cached_tokens is None:
        because = "unknown"
    elif cached_tokens >= reusable * _NEARLY:
        because = None

    if first_token_ms is not None:
        if cached_tokens is not None and because is not None and cached_tokens < reusable * _COLD:
            cold_ms = first_token_ms
        connection.execute(
            "INSERT OR REPLACE INTO asked VALUES (?, ?, ?, ?, ?, ?)",
            (prefix.id, prefix.name, instance, time.time(), cold_ms, because and where_cold),
        )
    return Verdict(because, cold_ms)


def _num_reusable(prefix: Prefix, block_size: int | None) -> int:
    """Tokens of the prefix's whole blocks: all that a lookup can find (a tail of at least one token follows)."""
    size = block_size or _UNKNOWN_BLOCK_SIZE
    return prefix.num_tokens // size * size


def _has_other(connection: sqlite3.Connection, prefix: Prefix) -> bool:
    if not prefix.name:
        return False
    found = connection.execute(
        "SELECT 1 FROM asked WHERE name = ? AND id != ? LIMIT 1", (prefix.name, prefix.id)
    ).fetchone()
    return found is not None
