"""Decides which files the words of a command line mean: files, folders with all below them, globs.

Hidden files and folders are skipped in folders, not where they are named. Formats that are not read yet are told apart,
so that they can be named instead of failing one by one.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Found:
    """`files` in the order named, each once; `left_out` counts the other formats in folders by suffix."""

    files: tuple[Path, ...]
    left_out: tuple[tuple[str, int], ...]

    @property
    def left_out_words(self) -> str:
        """ "3 files left out, of formats that are not read yet: .docx (2), no suffix (1)." """
        count = sum(number for _, number in self.left_out)
        kinds = ", ".join(f"{suffix or 'no suffix'} ({number})" for suffix, number in self.left_out)
        return f"{count} file{'s' * (count != 1)} left out, of formats that are not read yet: {kinds}."


def find_files(words: Iterable[str], suffixes: Collection[str]) -> Found:
    """Expands `words`; `suffixes` (".pdf", lower case) are what is taken from folders and globs. A word that is neither
    file, folder nor a glob that matches stays as it is, for `add` to say that it isn't there."""
    files: dict[Path, None] = {}
    left_out: Counter[str] = Counter()
    for word in words:
        path = Path(word).expanduser()
        if path.is_dir():
            several: Iterator[Path] = _below(path)
        elif not path.exists() and glob.has_magic(word):
            several = _globbed(str(path))
        else:
            several = iter(())
        found = tuple(several)
        if not found and not path.is_dir():
            files[path] = None
        for file in found:
            if file.suffix.lower() in suffixes:
                files[file] = None
            else:
                left_out[file.suffix.lower()] += 1
    unique = {path.resolve(): path for path in reversed(files)}
    return Found(tuple(path for path in files if unique[path.resolve()] is path), tuple(sorted(left_out.items())))


def _globbed(pattern: str) -> Iterator[Path]:
    for match in sorted(glob.glob(pattern, recursive=True)):
        if os.path.isdir(match):
            if not match.rstrip(os.sep).endswith("**"):
                yield from _below(Path(match))
        else:
            yield Path(match)


def _below(folder: Path) -> Iterator[Path]:
    """Files below `folder` by name; links to folders are not followed (they may lead round in a circle)."""
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(at) / name for name in sorted(names) if not name.startswith("."))
