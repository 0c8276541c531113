"""Decides how files are read and split side by side: in processes that end with the one that started them.

Each of them reads one file at a time, in a confined process of its own (`ingest.read`), so its limits hold for each.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from ingest.changes import Prepared
from ingest.document import IngestError
from ingest.embed import Embedder, open_embedder
from ingest.prepare import prepare
from ingest.read import read
from ingest.settings import IngestSettings

Report = tuple[str, str, int, int]


@dataclass(frozen=True)
class Refused:
    """A file that can't be read: the error, in a form that travels between processes."""

    code: str
    message: str


class Preparers:
    """`jobs` processes; started as they are needed.

    Args:
        embedder: The name of the one whose tokenizer measures passages.
        progress: Called in a thread of its own with a file's name, and what `ingest.read.Progress` takes.
    """

    def __init__(
        self, jobs: int, settings: IngestSettings, embedder: str, progress: Callable[[str, str, int, int], None] | None
    ) -> None:
        # Not forked: this process has threads.
        context = multiprocessing.get_context("spawn")
        self._reports: SimpleQueue[Report | None] = context.SimpleQueue()
        self._pool = ProcessPoolExecutor(jobs, context, _begin, (settings, embedder, self._reports))
        self._listener = threading.Thread(target=self._listen, args=(progress,), daemon=True)
        self._listener.start()

    def submit(self, copy: Path, name: str, suffix: str) -> Future[Prepared | Refused]:
        return self._pool.submit(_prepare, copy, name, suffix)

    def close(self) -> None:
        """Ends all of them; what they are at is given up."""
        workers = list((getattr(self._pool, "_processes", None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        self._reports.put(None)
        self._listener.join()

    def _listen(self, progress: Callable[[str, str, int, int], None] | None) -> None:
        while (report := self._reports.get()) is not None:
            if progress:
                progress(*report)


class _Worker:
    """What one process keeps from file to file."""

    settings: IngestSettings
    embedder_name: str
    embedder: Embedder | None = None
    reports: SimpleQueue[Report | None]


def _begin(settings: IngestSettings, embedder: str, reports: SimpleQueue[Report | None]) -> None:
    _Worker.settings, _Worker.embedder_name, _Worker.reports = settings, embedder, reports
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _prepare(copy: Path, name: str, suffix: str) -> Prepared | Refused:
    def report(stage: str, done: int, total: int) -> None:
        _Worker.reports.put((name, stage, done, total))

    try:
        if _Worker.embedder is None:
            _Worker.embedder = open_embedder(_Worker.embedder_name, offline=True)
        document = read(copy, _Worker.settings, report, name=name)
        return prepare(document, _Worker.embedder, _Worker.settings, suffix, copy.stat().st_size, report)
    except IngestError as error:
        return Refused(error.code, error.message)
