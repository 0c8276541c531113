"""Decides under which name a file comes in: its own, or with its folder where another file beside it has that name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ingest.store import Store


@dataclass(frozen=True)
class FileToAdd:
    """A file that is to be taken in.

    Attributes:
        root: The folder that was named, where the file was found below one; None where it was named itself.
    """

    path: Path
    root: Path | None = None

    @property
    def source(self) -> str:
        """Where it lies, for ever."""
        return os.path.abspath(self.path)


def name_of(file: FileToAdd, kb: str, store: Store, coming: Mapping[str, str]) -> str:
    """A file keeps the name under which it came in; two of one name below one folder are told apart by their folders.

    Args:
        coming: The sources of files that are on their way in, by name.
    """
    own = store.name_at(kb, file.source)
    if own is not None:
        return own
    plain = storable(file.path.name)
    if file.root is None:
        return plain
    held = store.member(kb, plain)
    owner = coming.get(plain) or (None if held is None else store.source_of(kb, held))
    if owner is None or owner == file.source or not os.path.lexists(owner) or not is_below(owner, file.root):
        return plain
    return "/".join(storable(part) for part in file.path.relative_to(file.root).parts)


def is_below(source: str, folder: Path) -> bool:
    return Path(source).is_relative_to(os.path.abspath(folder))


def storable(name: str) -> str:
    """A file name that can be kept and shown: no path, no NUL, nothing that is not Unicode."""
    return Path(name.replace("\0", "")).name.encode("utf-8", "replace").decode() or "unnamed"
