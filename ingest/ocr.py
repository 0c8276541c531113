"""Decides which pages are read by text recognition (OCR), for how long, and what becomes of their document.

A page is recognised where it shows something but has no usable words of its own. A page that crashes or stalls the
recogniser is passed over, and the next ones are read by a new process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ingest.child import child
from ingest.document import PAGE_BREAK, Document, Heading, Page
from ingest.quality import HOPELESS_SHARE, badness
from ingest.settings import IngestSettings

_START_SECONDS = 90.0
_MEMORY_BYTES = 3 * 1024**3
"""Of address space, which ONNX Runtime reserves; about 0.8 GB of it are used."""
_MOST_FAILURES = 5


def pages_to_recognise(document: Document) -> tuple[int, ...]:
    """Pages without usable words, by number: pictures, and text of which a third means nothing."""
    return tuple(
        page.number
        for page in document.pages
        if page.origin == "picture" or (page.origin == "doubtful" and badness(page.text) > HOPELESS_SHARE)
    )


def recognise(
    path: Path, document: Document, settings: IngestSettings, progress: Callable[[str, int, int], None] | None
) -> Document:
    """The document with what was recognised within bounds; pages that could not be read stay as they are."""
    wanted = pages_to_recognise(document)[: settings.max_ocr_pages]
    texts: dict[int, str] = {}
    for done, (number, text) in enumerate(_recognised(path, wanted, settings), 1):
        if text.strip():
            texts[number] = text
        if progress:
            progress("recognise", done, len(wanted))
    return with_texts(document, texts)


def with_texts(document: Document, texts: dict[int, str]) -> Document:
    """Puts recognised words in the place of a page's own; headings move along with their pages."""
    pages = tuple(
        replace(page, text=_joined(page, texts[page.number]), origin="ocr") if page.number in texts else page
        for page in document.pages
    )
    changed = replace(document, pages=pages)
    headings = []
    for heading in document.headings:
        index = _page_of(document, heading.start)
        offset = 0 if document.pages[index].number in texts else heading.start - document.page_starts[index]
        headings.append(Heading(heading.title, heading.level, changed.page_starts[index] + offset))
    return replace(changed, headings=tuple(headings))


def _page_of(document: Document, place: int) -> int:
    return max(index for index, start in enumerate(document.page_starts) if start <= place)


def _joined(page: Page, recognised: str) -> str:
    """What was filled in on a picture stays below what is recognised in it."""
    kept = page.text.strip() if page.origin == "picture" else ""
    return "\n\n".join(filter(None, [recognised.replace(PAGE_BREAK, "\n").replace("\0", ""), kept]))


def _recognised(path: Path, wanted: tuple[int, ...], settings: IngestSettings) -> Iterator[tuple[int, str]]:
    deadline = time.monotonic() + settings.max_ocr_seconds
    left = list(wanted)
    for _ in range(_MOST_FAILURES):
        if not left or time.monotonic() >= deadline:
            return
        begun = False
        # Some thousand page numbers fit into a command line.
        arguments = [str(path.resolve()), str(_MEMORY_BYTES), *map(str, left[:5000])]
        with child("ingest.ocr_worker", arguments) as worker:
            try:
                while left:
                    patience = settings.max_ocr_stall_seconds if begun else _START_SECONDS
                    message = worker.next(min(patience, deadline - time.monotonic()))
                    if message is None:
                        break
                    if "page" in message:
                        left.remove(message["page"])
                        yield message["page"], message["text"]
                    else:
                        begun = True
            except TimeoutError:
                pass
        if not begun:
            # It never came to a page: no memory, or a package is missing. Another try ends the same way.
            return
        # The page at hand has stalled or crashed it, or the time is up.
        del left[:1]
