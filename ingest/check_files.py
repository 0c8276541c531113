"""Decides what must hold between the stored documents and the files of a home: bytes as added, nothing left over."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ingest.database import Database
from ingest.faults import Fault
from ingest.restore import left_behind
from ingest.store import Store
from ingest.sweep import is_marked, stray_files, sweep

_STALE_SECONDS = 24 * 3600


def file_faults(home: Path, database: Database, files: Path, staging: Path) -> Iterator[Fault]:
    """What is wrong with the files of a home."""
    store = Store(database, files)
    rows = database.connection.execute("SELECT id, suffix, num_bytes FROM documents ORDER BY id").fetchall()
    for document_id, suffix, num_bytes in rows:
        wrong = _wrong_bytes(files / f"{document_id}{suffix}", document_id, num_bytes)
        # Looked up again: it may have been removed since.
        if wrong is not None and store.is_stored(document_id):
            yield Fault(*wrong, document_id)
    with database.writing() as connection:
        strays, marked = stray_files(connection, files), is_marked(connection)
    for path in strays:
        yield Fault(
            "file_stray",
            f"The file {path.name} belongs to no document.",
            mend=partial(sweep, database, files),
        )
    if marked:
        yield Fault(
            "unswept",
            "Words of a removed document are not overwritten yet: a process that was killed or still reads kept them.",
            mend=partial(sweep, database, files),
        )
    if old := _stale(staging):
        yield Fault(
            "staging_left",
            f"{len(old)} half-copied files of processes that have ended lie in {staging}.",
            mend=partial(_remove, old),
        )
    for folder in left_behind(home):
        yield Fault(
            "restore_left", f"{folder} was left by a restore that was killed.", mend=partial(left_behind, home, True)
        )


def _wrong_bytes(path: Path, document_id: str, num_bytes: int) -> tuple[str, str] | None:
    advice = "its text stays; to have the file too, remove the document and add it again, or restore a backup."
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = path.stat().st_size
    except OSError as error:
        return "file_missing", f"The original file of {document_id} can't be read ({error.strerror}): {advice}"
    if digest[:16] != document_id or size != num_bytes:
        return "file_changed", f"The original file of {document_id} has other bytes than were added: {advice}"
    return None


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _stale(staging: Path) -> list[Path]:
    """What no running process can still be at: others may have the home open."""
    now = time.time()
    return [
        path for path in sorted(staging.iterdir()) if path.is_file() and now - path.stat().st_mtime > _STALE_SECONDS
    ]
