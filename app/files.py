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
from itertools import takewhile
from pathlib import Path


@dataclass(frozen=True)
class Found:
    """`files` in the order named, each once; `left_out` counts the other formats in folders by suffix.

    `roots` holds for each file the folder below which it was found, None where it was named itself.
    """

    files: tuple[Path, ...]
    left_out: tuple[tuple[str, int], ...]
    roots: tuple[Path | None, ...] = ()

    @property
    def left_out_words(self) -> str:
        """ "3 files left out, of formats that are not read yet: .docx (2), no suffix (1)." """
        count = sum(number for _, number in self.left_out)
        kinds = ", ".join(f"{suffix or 'no suffix'} ({number})" for suffix, number in self.left_out)
        return f"{count} file{'s' * (count != 1)} left out, of formats that are not read yet: {kinds}."


def find_files(words: Iterable[str], suffixes: Collection[str]) -> Found:
    """Expands `words`; `suffixes` (".pdf", lower case) are what is taken from folders and globs. A word that is neither
    file, folder nor a glob that matches stays as it is, for `add` to say that it isn't there."""
    files: dict[Path, Path | None] = {}
    left_out: Counter[str] = Counter()
    for word in words:
        path = Path(word).expanduser()
        is_folder = os.path.isdir(path)
        if is_folder:
            several: Iterator[Path] = _below(path)
        elif not os.path.lexists(path) and glob.has_magic(word):
            several = _globbed(path)
        else:
            several = iter(())
        found = tuple(several)
        if not found and not is_folder:
            files[path] = None
        for file in found:
            if file.suffix.lower() in suffixes or os.path.isdir(file):
                files.setdefault(file, path if is_folder else None)
            else:
                left_out[file.suffix.lower()] += 1
    # Not Path.resolve, which raises on a link that leads to itself.
    first = {os.path.realpath(path): path for path in reversed(files)}
    unique = dict.fromkeys(first[os.path.realpath(path)] for path in files)
    return Found(tuple(unique), tuple(sorted(left_out.items())), tuple(files[path] for path in unique))


def _globbed(pattern: Path) -> Iterator[Path]:
    """Matches by name. Not glob.glob: its `**` follows links, round and round where they lead in a circle."""
    fixed = list(takewhile(lambda part: not glob.has_magic(part), pattern.parts))
    wanted = pattern.parts[len(fixed) :]
    with_hidden = any(part.startswith(".") for part in wanted)
    try:
        matches = sorted(Path(*fixed).glob(str(Path(*wanted))))
    except ValueError:  # "**" as a part of a name: no such pattern
        return
    for match in matches:
        if not with_hidden and any(part.startswith(".") for part in match.parts[len(fixed) :]):
            continue
        if match.is_dir():
            yield from _below(match)
        else:
            yield match


def _below(folder: Path) -> Iterator[Path]:
    """Files below `folder` by name; links to folders are not followed (they may lead round in a circle).

    A folder that can't be listed comes itself, for `add` to say so.
    """
    closed: list[Path] = []
    for at, folders, names in os.walk(folder, onerror=lambda error: closed.append(Path(error.filename))):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(at) / name for name in sorted(names) if not name.startswith("."))
    yield from closed
