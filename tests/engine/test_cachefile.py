"""A file of remembered values that several processes open at the same moment."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from locked_file import LockedFile

from engine.cachefile import CacheFile, write_ahead

SCHEMA = "CREATE TABLE IF NOT EXISTS one (value TEXT);"


def journal(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def test_who_opens_a_new_file_while_another_makes_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says at once that the file is locked where its log is to be turned on: it is asked again."""
    locked = LockedFile(tmp_path / "kept.sqlite", 3)
    monkeypatch.setattr("engine.cachefile.time", SimpleNamespace(sleep=locked.sleep, monotonic=lambda: 0.0))
    file = CacheFile(tmp_path / "kept.sqlite", SCHEMA)
    assert file.run(journal) == "wal"
    assert len(locked.waits) == 3
    file.close()


def test_one_that_stays_locked_is_said_to_be(tmp_path: Path) -> None:
    """After the time that it may wait, in SQLite's own words."""
    other = sqlite3.connect(tmp_path / "kept.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    mine = sqlite3.connect(tmp_path / "kept.sqlite", isolation_level=None, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        write_ahead(mine, 0.05)
    assert journal(mine) == "delete"


def test_what_is_no_lock_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no database: its error comes at once."""
    (tmp_path / "kept.sqlite").write_bytes(b"no database, " * 100)
    waits: list[float] = []
    monkeypatch.setattr("engine.cachefile.time", SimpleNamespace(sleep=waits.append, monotonic=lambda: 0.0))
    mine = sqlite3.connect(tmp_path / "kept.sqlite", isolation_level=None)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        write_ahead(mine, 10.0)
    assert waits == []


def test_a_look_reads_without_waiting_for_a_writer(tmp_path: Path) -> None:
    """What was kept before is seen while another process writes; a broken file is begun anew, as for a change."""
    file = CacheFile(tmp_path / "kept.sqlite", SCHEMA)
    file.run(lambda connection: connection.execute("INSERT INTO one VALUES ('before')"))
    other = sqlite3.connect(tmp_path / "kept.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO one VALUES ('meanwhile')")

    def look(connection: sqlite3.Connection) -> list[tuple[str]]:
        return connection.execute("SELECT value FROM one").fetchall()

    assert file.look(look) == [("before",)]
    other.execute("COMMIT")
    other.close()
    file.close()
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"kept.sqlite{suffix}").unlink(missing_ok=True)
    (tmp_path / "kept.sqlite").write_bytes(b"no database, " * 100)
    assert file.look(look) == []
    file.close()
