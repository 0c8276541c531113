"""Decides how a backup becomes a home again: all of it is unpacked and checked beside, then put in place in one step.

A restore that is killed leaves the home as it was, and a folder beside it that the next one to open the home clears.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from ingest.backup import BASE_NAME
from ingest.database import SCHEMA_VERSION
from ingest.document import IngestError
from ingest.manifest import Manifest, blocks, opened
from ingest.occupancy import LOCK_NAME, emptied
from ingest.read import Progress

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@dataclass(frozen=True)
class Restored:
    """What was put in place. `made_at` is when the backup was made: UTC, ISO 8601."""

    home: Path
    num_documents: int
    num_files: int
    made_at: str


def restore(path: Path, home: Path, *, replace: bool = False, progress: Progress | None = None) -> Restored:
    """Makes `home` what it was when the backup `path` was made.

    Args:
        replace: Whether a home that has something in it is given up for it.

    Raises:
        IngestError: `not_found`, `not_a_backup`, `backup_damaged`, `backup_version`, `home_not_empty`, `home_in_use`,
            `restore_failed`; the home is then as it was.
    """
    home = home.absolute()
    with opened(path) as (_, manifest):
        _refuse_newer(path, manifest)
    if _holds_something(home) and not replace:
        raise IngestError(
            "home_not_empty",
            f"{home} is not empty: restore into another folder (--into), or give up what is there (--replace).",
        )
    try:
        left_behind(home, clear=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        with _aside(home) as folder:
            _unpack(path, folder, progress)
            _name_anew(folder)
            _put_in_place(folder, home)
    except (OSError, sqlite3.Error) as error:
        raise IngestError(
            "restore_failed",
            f"{home} can't be made ({error}): check the rights and the space in {home.parent}, or restore into another "
            "folder (--into).",
        ) from error
    return Restored(home, manifest.num_documents, len(manifest.members), manifest.made_at)


def left_behind(home: Path, clear: bool = False) -> list[Path]:
    """Folders beside a home that restores were killed over; `clear` removes them."""
    found = []
    parent = home.absolute().parent
    for folder in sorted(parent.glob(f".{home.name}.restore-*")) if parent.is_dir() else []:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # a restore that is at work
            continue
        else:
            found.append(folder)
            if clear:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
    return found


def _refuse_newer(path: Path, manifest: Manifest) -> None:
    if manifest.store_version > SCHEMA_VERSION:
        raise IngestError(
            "backup_version",
            f"{path} was made by a later readonce ({manifest.program}, format {manifest.store_version}; this one reads "
            f"up to {SCHEMA_VERSION}): restore it with that one.",
        )


def _holds_something(home: Path) -> bool:
    if not home.exists():
        return False
    if not home.is_dir():
        raise IngestError("restore_failed", f"{home} is a file: restore into another folder (--into).")
    return any(item.name != LOCK_NAME for item in home.iterdir())


@contextmanager
def _aside(home: Path) -> Iterator[Path]:
    """A folder beside the home, on the same file system; its lock says that a restore is at work in it."""
    folder = home.parent / f".{home.name}.restore-{uuid4().hex}"
    folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            # What is under this name by now: what was unpacked in vain, or the home that was given up.
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _unpack(path: Path, folder: Path, progress: Progress | None) -> None:
    with opened(path) as (archive, manifest):
        for number, member in enumerate(manifest.members, 1):
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, member.mode & 0o700 | 0o600)
            with os.fdopen(descriptor, "wb") as file:
                for block in blocks(path, archive, member):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(target, member.mode & 0o777)
            if progress:
                progress("store", number, len(manifest.members))


def _name_anew(folder: Path) -> None:
    """Gives the base a name of its own: from here on it and the one that was saved go different ways."""
    with closing(sqlite3.connect(folder / BASE_NAME)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'base'", (uuid4().hex,))


def _put_in_place(folder: Path, home: Path) -> None:
    if not _holds_something(home):
        (home / LOCK_NAME).unlink(missing_ok=True)
        os.rename(folder, home)  # in place of an empty folder too
    else:
        with emptied(home):
            _exchange(folder, home)
    descriptor = os.open(home.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(folder: Path, home: Path) -> None:
    """Swaps the two names in one step; where the file system can't, in two."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(_AT_FDCWD, os.fsencode(folder), _AT_FDCWD, os.fsencode(home), _RENAME_EXCHANGE)
    if done == 0:
        return
    given_up = folder.with_name(f"{folder.name}-old")
    os.rename(home, given_up)
    try:
        os.rename(folder, home)
    except OSError:
        os.rename(given_up, home)
        raise
    os.rename(given_up, folder)
