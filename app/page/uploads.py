"""Decides how an uploaded file gets in: copied away from Chainlit's session folder at once, under a harmless name.

Chainlit keeps the browser's file name word for word ("../../x"), and drops the file when the session ends.
"""

from __future__ import annotations

import shutil
import unicodedata
import uuid
from dataclasses import dataclass
from pathlib import Path

from app.page.words import say
from app.problem import Problem
from app.words import Language
from ingest.read import NAMED_SUFFIXES

MOST_FILES = 20
_MOST_NAME_BYTES = 160


@dataclass(frozen=True)
class Upload:
    """A file of ours: `path` lies in a folder of its own, `name` is what the person called it."""

    path: Path
    name: str

    def discard(self) -> None:
        shutil.rmtree(self.path.parent, ignore_errors=True)


def take(source: Path, name: str, home: Path, most_mib: int, language: Language) -> Upload:
    """Copies `source` into a new folder under `home`. Blocking.

    Raises:
        Problem: `unsupported_type`, `too_large`.
    """
    clean = clean_name(name)
    suffix = Path(clean).suffix.lower()
    if suffix not in NAMED_SUFFIXES:
        raise Problem("unsupported_type", say("wrong_kind", language, suffix=suffix or clean))
    size = source.stat().st_size
    if size > most_mib * 1024 * 1024:
        raise Problem("too_large", say("too_large", language, size=f"{size / 1024 / 1024:.0f}", most=most_mib))
    folder = home / "uploads" / uuid.uuid4().hex
    folder.mkdir(parents=True)
    return Upload(Path(shutil.copyfile(source, folder / clean)), clean)


def clean_name(name: str) -> str:
    """The last part of `name` without control characters, leading dots or what a file system refuses; never empty."""
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(
        character for character in last if unicodedata.category(character)[0] != "C" and character not in '<>:"|?*'
    )
    kept = " ".join(kept.split()).lstrip(". ")
    stem, dot, suffix = kept.rpartition(".")
    if not dot:
        stem, suffix = kept, ""
    while len(f"{stem}{dot}{suffix}".encode()) > _MOST_NAME_BYTES and stem:
        stem = stem[:-1]
    return f"{stem or 'document'}{dot}{suffix}"
