"""Decides when files that change in watched folders are ready to be read: once nobody writes to them any more."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from threading import Event

# Changes that follow each other this closely come together; a file that did not change for as long is finished.
_TOGETHER_MS = 1_000


class Settling:
    """Files that have changed, until they rest: not reported again, and of the size and time of the last look."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, int] | None] = {}

    def look(self, changed: Iterable[Path]) -> frozenset[Path]:
        """Takes what has changed since the last look; gives what has come to rest, each once. Gone counts as rest."""
        again = set(changed)
        ready = {path for path, seen in self._seen.items() if path not in again and _state(path) == seen}
        for path in ready:
            del self._seen[path]
        for path in again | set(self._seen):
            self._seen[path] = _state(path)
        return frozenset(ready)


def settled(folders: Collection[Path], stop: Event | None = None) -> Iterator[frozenset[Path]]:
    """Yields paths below `folders` that were changed, added or deleted and have come to rest; ends with Ctrl-C.

    The first are the folders themselves, once they are watched: whatever changed in them until then is to be looked at.
    """
    from watchfiles import watch

    settling, begun = Settling(), False
    for changes in watch(
        *folders,
        watch_filter=None,
        debounce=_TOGETHER_MS,
        rust_timeout=_TOGETHER_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        stop_event=stop,
    ):
        if not begun:
            begun = True
            yield frozenset(folders)
        if ready := settling.look(Path(path) for _, path in changes):
            yield ready


def concerns(path: Path, changed: Iterable[Path]) -> bool:
    """Whether `path`, or a folder above it, is among what has changed: a folder that is moved in is told as one."""
    whole = Path(os.path.abspath(path))
    return any(whole.is_relative_to(os.path.abspath(one)) for one in changed)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
