"""Decides what a backup says of itself, and whether a file is one: its members by name, size and hash, all of them."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ingest.document import IngestError

MANIFEST_NAME = "manifest.json"
FORMAT = "readonce-backup-1"
_MOST_MANIFEST_BYTES = 256 * 1024 * 1024
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Member:
    """One file of a home. `name` is its path there, with slashes; `mode` its rights."""

    name: str
    num_bytes: int
    sha256: str
    mode: int


@dataclass(frozen=True)
class Manifest:
    """What a backup holds.

    Attributes:
        format: Of the archive.
        store_version: Of the base in it.
        program: The version of readonce that wrote it.
        made_at: UTC, ISO 8601.
        num_documents: In the base.
    """

    format: str
    store_version: int
    program: str
    made_at: str
    num_documents: int
    members: tuple[Member, ...]


@contextmanager
def opened(path: Path) -> Iterator[tuple[zipfile.ZipFile, Manifest]]:
    """An archive and its manifest; whatever is wrong with it inside the `with` block is told as one sentence.

    Raises:
        IngestError: `backup_damaged`, `not_a_backup`, `not_found`.
    """
    import msgspec

    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise IngestError("not_found", f"{path} is not there: check the path.") from None
    except (zipfile.BadZipFile, OSError, ValueError, EOFError) as error:
        raise _not_a_backup(path, error) from error
    with archive:
        try:
            if MANIFEST_NAME not in archive.namelist():
                raise _not_a_backup(path, "it has no list of its files")
            if any(member.header_offset < 0 for member in archive.infolist()):
                raise _damaged(path, "a file in it would lie before its beginning")
            if archive.getinfo(MANIFEST_NAME).file_size > _MOST_MANIFEST_BYTES:
                raise _damaged(path, "its list of files is too long")
            manifest = msgspec.json.decode(archive.read(MANIFEST_NAME), type=Manifest)
            _check(path, archive, manifest)
            yield archive, manifest
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError) as error:
            raise _damaged(path, error) from error
        except (ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise _damaged(path, error) from error


def blocks(path: Path, archive: zipfile.ZipFile, member: Member) -> Iterator[bytes]:
    """The bytes of a member; ends well only where they are those that the manifest names.

    Raises:
        IngestError: `backup_damaged`.
    """
    digest, num_bytes = hashlib.sha256(), 0
    with archive.open(member.name) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            num_bytes += len(block)
            if num_bytes > member.num_bytes:
                break
            yield block
    if (num_bytes, digest.hexdigest()) != (member.num_bytes, member.sha256):
        raise _damaged(path, f"{member.name} has other bytes than were saved")


def verify(path: Path) -> Manifest:
    """Reads the whole archive.

    Raises:
        IngestError: As `opened`.
    """
    with opened(path) as (archive, manifest):
        for member in manifest.members:
            for _ in blocks(path, archive, member):
                pass
    return manifest


def _check(path: Path, archive: zipfile.ZipFile, manifest: Manifest) -> None:
    if manifest.format != FORMAT:
        raise IngestError(
            "backup_version", f"{path} is a backup of the kind {manifest.format!r}: restore it with a later readonce."
        )
    names = [member.name for member in manifest.members]
    if sorted([*names, MANIFEST_NAME]) != sorted(archive.namelist()):
        raise _damaged(path, "files are missing from it, or were put into it")
    for name in names:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name or "/".join(parts) != name:
            raise _damaged(path, f"{name!r} is no name of a file in a home")


def _damaged(path: Path, why: object) -> IngestError:
    return IngestError("backup_damaged", f"{path} is damaged ({why}): nothing was restored; use another backup.")


def _not_a_backup(path: Path, why: object) -> IngestError:
    said = getattr(why, "strerror", None) or why
    return IngestError("not_a_backup", f"{path} is no backup of readonce ({said}): check the path.")
