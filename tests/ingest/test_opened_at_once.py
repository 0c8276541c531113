"""Two processes that open a new home at the same moment."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from locked_file import LockedFile

from ingest.database import Database
from ingest.document import IngestError


def test_who_opens_a_new_home_while_another_makes_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says at once that the file is locked where its log is to be turned on: it is asked again."""
    locked = LockedFile(tmp_path / "base.sqlite", 3)
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=locked.sleep))
    database = Database(tmp_path / "base.sqlite")
    assert database.connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert len(locked.waits) == 3
    database.close()


def test_what_is_no_database_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a lock is waited for."""
    (tmp_path / "base.sqlite").write_bytes(b"no database, " * 100)
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=waits.append))
    with pytest.raises(IngestError) as caught:
        Database(tmp_path / "base.sqlite")
    assert (caught.value.code, waits) == ("store_damaged", [])
