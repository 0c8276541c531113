"""Decides what a home is while it is open: its folders, its database, and who else has it open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ingest.backup import SNAPSHOTS
from ingest.database import Database
from ingest.occupancy import Occupancy
from ingest.restore import left_behind
from ingest.sweep import clear_up


@dataclass(frozen=True)
class OpenedHome:
    """The parts of an open home; `staging` is where copies lie while they are read."""

    path: Path
    files: Path
    staging: Path
    database: Database
    occupancy: Occupancy

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens a home, or makes it; who has it alone clears what killed processes left.

        Raises:
            IngestError: `store_damaged`, `store_unusable` or `store_version`.
        """
        files, staging = path / "files", path / "staging"
        for folder in (files, staging):
            folder.mkdir(parents=True, exist_ok=True)
        occupancy = Occupancy(path)
        try:
            database = Database(path / "documents.sqlite3")
            if occupancy.alone:
                clear_up(database, files, (staging, path / SNAPSHOTS))
                left_behind(path, clear=True)
        except BaseException:
            occupancy.close()
            raise
        occupancy.share()
        return cls(path, files, staging, database, occupancy)

    def close(self) -> None:
        """Ends all threads' use."""
        self.database.close()
        self.occupancy.close()
