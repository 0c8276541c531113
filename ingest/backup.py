"""Decides how a home is written into one file: as it is at one moment, while others go on, and read back before told.

Under the write lock, for a moment, the base's state is pinned and the original files are linked; both are then copied
in peace. Files are named by their hash and never change, so that a link is a copy.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sqlite3
import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from ingest.database import SCHEMA_VERSION, Database
from ingest.document import IngestError
from ingest.manifest import FORMAT, MANIFEST_NAME, Manifest, Member, verify
from ingest.read import Progress

SNAPSHOTS = "snapshots"
BASE_NAME = "documents.sqlite3"
_BLOCK = 1 << 20
_SQLITE_BEGINS = b"SQLite format 3\0"


@dataclass(frozen=True)
class BackedUp:
    """What was written.

    Attributes:
        left_out: Ids of documents whose original file was not there to be saved; their text is.
    """

    path: Path
    num_documents: int
    num_files: int
    num_bytes: int
    left_out: tuple[str, ...]


def backup(
    home: Path, database: Database, path: Path, beside: Sequence[Path] = (), progress: Progress | None = None
) -> BackedUp:
    """Writes the base, its original files and the files `beside` (paths below `home`) into the archive `path`.

    Raises:
        IngestError: `backup_failed`; what was at `path` before is then still there.
    """
    path = path.absolute()
    if path.is_relative_to(home.absolute()):
        raise IngestError("backup_failed", f"{path} lies in the home that is to be saved: name a file elsewhere.")
    if path.is_dir():
        raise IngestError("backup_failed", f"{path} is a folder: name a file in it, such as {path / 'readonce.zip'}.")
    try:
        with _snapshot(home, database) as (folder, left_out), _part(path) as part:
            sources = [(item.name, item) if item.name == BASE_NAME else (f"files/{item.name}", item)
                       for item in sorted(folder.iterdir())]  # fmt: skip
            members = _written(part, home, [*sources, *_beside(home, beside)], folder, progress)
            verify(part)
            os.replace(part, path)
            _sync_folder(path.parent)
            num_bytes = path.stat().st_size
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise IngestError(
            "backup_failed", f"{path} can't be written ({why}): check the folder, its rights and the space."
        ) from error
    num_documents = sum(member.name.startswith("files/") for member in members) + len(left_out)
    return BackedUp(path, num_documents, len(members), num_bytes, tuple(left_out))


@contextmanager
def _snapshot(home: Path, database: Database) -> Iterator[tuple[Path, list[str]]]:
    """A folder with the base and links to its files, as of one moment; and the ids of those without a file."""
    folder = home / SNAPSHOTS / uuid4().hex
    folder.mkdir(parents=True, mode=0o700)
    try:
        with closing(sqlite3.connect(home / BASE_NAME, isolation_level=None)) as source:
            with database.writing():
                source.execute("BEGIN")
                # The first read pins the state that `source` sees.
                rows = source.execute("SELECT id, suffix FROM documents").fetchall()
                left_out = [id_ for id_, suffix in rows if not _linked(home / "files" / f"{id_}{suffix}", folder)]
            with closing(sqlite3.connect(folder / BASE_NAME, isolation_level=None)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        yield folder, left_out
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another backup may be at work
            folder.parent.rmdir()


def _linked(file: Path, folder: Path) -> bool:
    try:
        os.link(file, folder / file.name)
    except FileNotFoundError:
        return False
    except OSError:  # a file system without links
        shutil.copyfile(file, folder / file.name)
    return True


def _beside(home: Path, files: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for file in files:
        if file.is_file() and not file.is_symlink():
            yield file.relative_to(home).as_posix(), file


@contextmanager
def _part(path: Path) -> Iterator[Path]:
    """The file that is written before it takes its name; only its owner may read it."""
    part = path.with_name(f".{path.name}.part")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IngestError("backup_failed", f"Another process is writing {path}: wait until it has ended.") from None
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        try:
            yield part
        finally:
            part.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _written(
    part: Path, home: Path, sources: Sequence[tuple[str, Path]], folder: Path, progress: Progress | None
) -> tuple[Member, ...]:
    import msgspec

    members = []
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number, (name, source) in enumerate(sources, 1):
            mode = stat.S_IMODE(source.stat().st_mode)
            with _still(source, folder) as copied:
                num_bytes, digest = _stored(archive, name, copied)
            members.append(Member(name, num_bytes, digest, mode))
            if progress:
                progress("store", number, len(sources))
        with closing(sqlite3.connect(folder / BASE_NAME)) as base:
            num_documents = base.execute("SELECT count(*) FROM documents").fetchone()[0]
        made_at = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(FORMAT, SCHEMA_VERSION, _program(), made_at, num_documents, tuple(members))
        archive.writestr(MANIFEST_NAME, msgspec.json.encode(manifest))
    with part.open("rb") as file:
        os.fsync(file.fileno())
    return tuple(members)


@contextmanager
def _still(source: Path, folder: Path) -> Iterator[Path]:
    """A file that does not change while it is read: another database than the base is copied as of one moment."""
    with source.open("rb") as file:
        is_database = file.read(len(_SQLITE_BEGINS)) == _SQLITE_BEGINS
    if not is_database or source.parent == folder:
        yield source
        return
    copy = folder / f"beside-{uuid4().hex}"
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(copy)) as target:
        original.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
    try:
        yield copy
    finally:
        copy.unlink()


def _stored(archive: zipfile.ZipFile, name: str, source: Path) -> tuple[int, str]:
    digest, num_bytes = hashlib.sha256(), 0
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    with source.open("rb") as file, archive.open(info, "w", force_zip64=True) as target:
        while block := file.read(_BLOCK):
            digest.update(block)
            num_bytes += len(block)
            target.write(block)
    return num_bytes, digest.hexdigest()


def _program() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("readonce")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
