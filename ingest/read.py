"""Decides how a file's bytes become a `Document`: which reader, within which limits.

Files are data from strangers: each is read in a process of its own that can be stopped, so that a bomb, a loop or a
crash in a parser costs one file and nothing else. That process makes no network request and runs no script.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.archive import PACKAGE_SUFFIXES
from ingest.child import Child, child
from ingest.coverage import coverage_warnings
from ingest.document import Document, IngestError
from ingest.ocr import pages_to_recognise, recognise
from ingest.pictures import is_pdf
from ingest.read_picture import PICTURE_SUFFIXES
from ingest.settings import IngestSettings
from ingest.wire import document_from_wire

Progress = Callable[[str, int, int], None]
"""Called with a stage ("read", "recognise", "split", "embed", "store"), how much is done, and how much there is."""

SUFFIXES = (
    frozenset({".pdf", ".txt", ".text", ".log", ".md", ".markdown", ".html", ".htm", ".xhtml", ".csv", ".tsv"})
    | frozenset({".eml", ".mht", ".mhtml"})
    | PACKAGE_SUFFIXES
)
"""What `add` picks out of a folder: no pictures, which are mostly logos and photographs, and slow to recognise; a file
named outright is judged by its bytes."""

NAMED_SUFFIXES = SUFFIXES | PICTURE_SUFFIXES
"""What may be brought one by one."""

_START_SECONDS = 30.0
_MOST_BAD_PAGES = 5


def read(
    path: Path, settings: IngestSettings, progress: Progress | None = None, *, name: str | None = None
) -> Document:
    """Reads a file into a document (which may have no text: `Document.text.strip()` is empty for a scan).

    Args:
        name: What the person calls the file; None: `path.name`.

    Raises:
        IngestError: With any of the codes named there.
    """
    name = name or path.name
    check_size(path, settings)
    document = _read_apart(path, name, settings, progress)
    if settings.ocr and pages_to_recognise(document):
        document = recognise(path, document, settings, progress)
    return replace(document, warnings=(*coverage_warnings(document, settings), *document.warnings))


def check_size(path: Path, settings: IngestSettings) -> None:
    """Refuses what is not there, empty or too large, before a byte is read."""
    try:
        size = path.stat().st_size
    except OSError as error:
        reason = "is not there" if isinstance(error, FileNotFoundError) else f"can't be opened ({error.strerror})"
        raise IngestError("not_found", f"{path} {reason}: check the path.") from error
    if path.is_dir():
        raise IngestError("not_found", f"{path} is a folder, and can't be listed: check its rights.")
    if not path.is_file():
        raise IngestError("not_found", f"{path} is not a file: name a file, or a folder of files.")
    if size == 0:
        raise IngestError("empty_file", f"{path.name} has no bytes: was the copy or the download finished?")
    if size > settings.max_bytes:
        raise IngestError(
            "too_large",
            f"{path.name} has {size / 1e6:,.0f} MB, the limit is {settings.max_bytes / 1e6:,.0f} MB: split the file, "
            "or raise max_bytes.",
        )


@dataclass(frozen=True)
class _Stopped:
    """A process that did not come to its end: why, and the page that it was at (counted from 1), if it was at one."""

    error: IngestError
    page: int | None


def _read_apart(path: Path, name: str, settings: IngestSettings, progress: Progress | None) -> Document:
    """Reads in a process of its own, and once more without a page that stopped it: the others are not lost for it."""
    deadline = time.monotonic() + settings.max_seconds
    limits = (settings.max_pages, settings.max_characters, settings.max_memory_bytes)
    skipped: list[int] = []
    while True:
        with child("ingest.worker", [str(path.resolve()), name, *map(str, (*limits, *skipped))]) as worker:
            ended = _awaited(worker, name, settings, deadline, progress)
        if isinstance(ended, Document):
            return ended
        if ended.page is None or ended.page in skipped or len(skipped) == _MOST_BAD_PAGES or not is_pdf(path):
            raise ended.error
        skipped.append(ended.page)


def _awaited(
    worker: Child, name: str, settings: IngestSettings, deadline: float, progress: Progress | None
) -> Document | _Stopped:
    patience = _START_SECONDS
    page: int | None = None
    try:
        while (message := worker.next(min(patience, deadline - time.monotonic()))) is not None:
            match message:
                case {"page": int(done), "of": int(total)}:
                    patience = settings.max_stall_seconds
                    page = done + 1 if done < total else None
                    if progress:
                        progress("read", done, total)
                case {"error": str(code), "message": str(sentence)}:
                    raise IngestError(code, sentence)
                case {"document": dict(fields)}:
                    return document_from_wire(fields)
    except TimeoutError:
        late = IngestError(
            "timed_out",
            f"{name} took too long to read and was stopped: it is damaged or built to exhaust a reader; print it to a "
            "new PDF, or raise max_seconds.",
        )
        return _Stopped(late, page if time.monotonic() < deadline else None)
    # The pipe closed without a result: the parser crashed or ran into the memory limit.
    crashed = IngestError(
        "too_complex",
        f"{name} can't be read within {settings.max_memory_bytes / 1e6:,.0f} MB of memory: it is damaged or built to "
        "exhaust a reader; print it to a new PDF, or leave it out.",
    )
    return _Stopped(crashed, page)
