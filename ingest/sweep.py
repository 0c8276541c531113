"""Decides what is cleared away: what a removed document leaves in files and tables, and what a killed process left.

Deleted rows are overwritten at once (`secure_delete`); the words of the keyword index stay in it until it is merged,
and pages stay in the write-ahead log until it is emptied. A mark in the base says that this is still to be done.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from ingest.database import Database
from ingest.index import INDEX_FILE

_MARK = "unswept"
_WAIT_FOR_READERS_MS = 500


def mark(connection: sqlite3.Connection) -> None:
    """Notes in the transaction of a removal that something of it has to be erased."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, '1')", (_MARK,))


def is_marked(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM meta WHERE key = ?", (_MARK,)).fetchone() is not None


def sweep(database: Database, files: Path) -> None:
    """Erases what no document needs any more; called after each change. What a reader holds up is left to the next."""
    # In a transaction of its own, after the commit: under the write lock nobody else is between storing a file and
    # committing its document, and a crash before this leaves a file too many, never one too few.
    with database.writing() as connection:
        for path in stray_files(connection, files):
            path.unlink(missing_ok=True)
        marked = is_marked(connection)
        if marked:
            connection.execute("INSERT INTO keywords(keywords) VALUES ('optimize')")
            (files.parent / INDEX_FILE).unlink(missing_ok=True)  # made anew without what has gone
    if marked and _emptied_log(database.connection):
        with database.writing() as connection:
            connection.execute("DELETE FROM meta WHERE key = ?", (_MARK,))


def stray_files(connection: sqlite3.Connection, files: Path) -> list[Path]:
    """Original files that belong to no document; to be asked under the write lock."""
    stored = {row["id"] for row in connection.execute("SELECT id FROM documents")}
    # By names alone: this is asked after each change, of as many files as there are documents.
    return [files / name for name in sorted(os.listdir(files)) if name.partition(".")[0] not in stored]


def clear_up(database: Database, files: Path, passing: Iterable[Path]) -> None:
    """Clears what killed processes left, all that is in the folders `passing` too. Only for who has the home alone."""
    for folder in passing:
        if folder.is_dir():
            clear_folder(folder)
    with database.reading() as connection:
        needed = is_marked(connection) or bool(stray_files(connection, files))
    if needed:
        sweep(database, files)


def clear_folder(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _emptied_log(connection: sqlite3.Connection) -> bool:
    """Moves the log's pages into the file and cuts it; False where a reader still needs them."""
    before = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute(f"PRAGMA busy_timeout = {_WAIT_FOR_READERS_MS}")
    try:
        return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        connection.execute(f"PRAGMA busy_timeout = {before}")
