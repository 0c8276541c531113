"""Decides how many files come in at once: several are read side by side, one after the other is stored, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from ingest.add import Adding, Outcome, Staged
from ingest.changes import Prepared
from ingest.document import IngestError
from ingest.identity import EmbedderIdentity
from ingest.naming import FileToAdd, name_of
from ingest.preparers import Preparers, Refused
from ingest.store import Store

ReadHere = Callable[[Staged], tuple[Prepared, EmbedderIdentity]]
_AHEAD_A_JOB = 3


@dataclass(frozen=True)
class Taken:
    """A file and what became of it: an outcome, or why it was not taken in."""

    file: FileToAdd
    result: Outcome | Exception


@dataclass(frozen=True)
class _Coming:
    file: FileToAdd
    at: Staged | Outcome | Exception
    prepared: Future[Prepared | Refused] | None = None


class ManyFiles:
    """One run over files.

    Args:
        read_here: Reads and splits a copy in this process.
        identity: The embedder in use.
        start: Makes the processes that read and split for an embedder; None where there are none (one job, one file).
        jobs: How many they are.
    """

    def __init__(
        self,
        adding: Adding,
        store: Store,
        kb: str,
        read_here: ReadHere,
        identity: Callable[[], EmbedderIdentity],
        start: Callable[[EmbedderIdentity], Preparers] | None,
        jobs: int,
    ) -> None:
        self._adding = adding
        self._store = store
        self._kb = kb
        self._read_here = read_here
        self._identity = identity
        self._start = start
        self._most = 1 if start is None else _AHEAD_A_JOB * jobs
        self._side: tuple[Preparers, EmbedderIdentity] | None = None
        self._coming: deque[_Coming] = deque()
        self._names: dict[str, str] = {}

    def run(self, files: Sequence[FileToAdd]) -> Iterator[Taken]:
        """Yields each file as soon as it is stored, or refused, in the order of `files`."""
        waiting = deque(files)
        try:
            while waiting or self._coming:
                while waiting and len(self._coming) < self._most:
                    self._coming.append(self._begun(waiting.popleft()))
                one = self._coming.popleft()
                try:
                    result: Outcome | Exception = self._finished(one)
                except Exception as error:  # one bad file never stops the others
                    result = error
                finally:
                    if isinstance(one.at, Staged):
                        one.at.discard()
                        self._names.pop(one.at.name, None)
                yield Taken(one.file, result)
        finally:
            if self._side is not None:
                self._side[0].close()
            for one in self._coming:
                if isinstance(one.at, Staged):
                    one.at.discard()

    def _begun(self, file: FileToAdd) -> _Coming:
        try:
            name = name_of(file, self._kb, self._store, self._names)
            staged = self._adding.stage(file.path, self._kb, name, file.source)
        except Exception as error:
            return _Coming(file, error)
        if not isinstance(staged, Staged):
            return _Coming(file, staged)
        self._names[name] = file.source
        return _Coming(file, staged, self._submitted(staged))

    def _submitted(self, staged: Staged) -> Future[Prepared | Refused] | None:
        """None where it is read here: by itself, or because the processes can't be had; its turn then says why."""
        if self._start is None:
            return None
        try:
            if self._side is None:
                wanted = self._identity()
                self._side = self._start(wanted), wanted
            return self._side[0].submit(staged.copy, staged.name, staged.suffix)
        except (BrokenProcessPool, IngestError):
            return None

    def _finished(self, one: _Coming) -> Outcome:
        if isinstance(one.at, Exception):
            raise one.at
        if isinstance(one.at, Outcome):
            return one.at
        prepared, identity = self._prepared(one.at, one.prepared)
        return self._adding.store(one.at, prepared, identity)

    def _prepared(self, staged: Staged, future: Future[Prepared | Refused] | None) -> tuple[Prepared, EmbedderIdentity]:
        if future is None or self._side is None:
            return self._read_here(staged)
        try:
            prepared = future.result()
        except BrokenProcessPool:  # one of them was killed, by the kernel for example: this one goes on alone
            return self._read_here(staged)
        if isinstance(prepared, Refused):
            raise IngestError(prepared.code, prepared.message)
        split_for = self._side[1]
        if self._identity() != split_for:  # a rebuild put another embedder's passages in place meanwhile
            return self._read_here(staged)
        return prepared, split_for
