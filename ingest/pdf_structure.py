"""Decides what pypdf tells of a PDF beside its words: printed page labels, outline, title, encryption."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from ingest.document import PAGE_BREAK, Heading
from ingest.patience import OutOfTime, within
from ingest.pdf_failures import BAD_DATA

_MOST_ENTRIES = 5000
_CPU_SECONDS = 5.0


@dataclass(frozen=True)
class Entry:
    """An outline entry: `page` is a sheet, counted from 0."""

    title: str
    level: int
    page: int


@dataclass(frozen=True)
class Structure:
    """Attributes:
    labels: One a page, or empty where the file has no labels of its own.
    failure: Why some of it could not be read, None where all could.
    encrypted: True where the file is encrypted at all, be it only against printing.
    """

    title: str | None = None
    labels: tuple[str, ...] = ()
    outline: tuple[Entry, ...] = ()
    failure: str | None = None
    encrypted: bool = False

    def headings(self, texts: tuple[str, ...]) -> tuple[Heading, ...]:
        """The outline with each entry's place in the pages' texts joined: its title there, else the page's start."""
        starts, at = [], 0
        for text in texts:
            starts.append(at)
            at += len(text) + len(PAGE_BREAK)
        headings: list[Heading] = []
        searched_to: dict[int, int] = {}
        for entry in self.outline:
            place = _place(entry.title, texts[entry.page], searched_to.get(entry.page, 0))
            searched_to[entry.page] = place
            headings.append(Heading(entry.title, entry.level, starts[entry.page] + place))
        return tuple(sorted(headings, key=lambda heading: heading.start))


def _place(title: str, text: str, after: int) -> int:
    """Where `title` stands in a page at or after `after`: at a line's start if it can, else at the page's start."""
    words = [re.escape(word) for word in title.split()]
    if words:
        for before in (r"(?m)^[\s\d.A-Z§第章节]{0,12}?", ""):
            found = re.compile(before + r"[\s\-]*".join(words), re.IGNORECASE).search(text, after)
            if found:
                return found.start() + len(found.group()) - len(found.group().lstrip())
    return after if after else len(text) - len(text.lstrip())


def read_structure(file: IO[bytes], texts: Sequence[str]) -> Structure:
    """Reads what pypdf can; never raises for a bad file."""
    import pypdf
    from pypdf.errors import DependencyError, PyPdfError

    num_pages = len(texts)
    failures: list[str] = []
    title: str | None = None
    labels: tuple[str, ...] = ()
    outline: tuple[Entry, ...] = ()
    reader: Any = None
    try:
        with within(_CPU_SECONDS):
            reader = pypdf.PdfReader(file, strict=False)
            if reader.is_encrypted and not reader.decrypt(""):
                return Structure(failure="the file is encrypted", encrypted=True)
            title = _attempt(lambda: _plain(reader.metadata.title) if reader.metadata else None, failures)
            labels = _attempt(lambda: _labels(reader, num_pages), failures) or ()
            outline = _attempt(lambda: tuple(_entries(reader, num_pages)), failures) or ()
            return Structure(title, labels, outline, failures[0] if failures else None, reader.is_encrypted)
    except (DependencyError, NotImplementedError):
        return Structure(failure="the encryption is not supported", encrypted=True)
    except MemoryError:
        return Structure(failure="it unpacks to too much")
    except OutOfTime:
        return Structure(title, labels, outline, "they take too long", reader is not None and reader.is_encrypted)
    except (PyPdfError, OSError, *BAD_DATA) as error:
        return Structure(failure=type(error).__name__)


def _attempt(read: Any, failures: list[str]) -> Any:
    from pypdf.errors import PyPdfError

    try:
        return read()
    except (PyPdfError, *BAD_DATA) as error:
        failures.append(type(error).__name__)
        return None


def _plain(value: Any) -> str | None:
    return None if value is None else str(value).replace("\0", "")


def _shown(label: str) -> str:
    """What of a label can be shown: a broken or hostile file has marks in it that no reader sees."""
    return "".join(sign for sign in label if sign.isprintable())


def _labels(reader: Any, num_pages: int) -> tuple[str, ...]:
    """Printed labels, only where the file names them and they differ from counting sheets."""
    if "/PageLabels" not in reader.trailer["/Root"].get_object():
        return ()
    labels = tuple(_shown(str(label)) for label in reader.page_labels)
    return labels if len(labels) == num_pages and any(labels) else ()


def _entries(reader: Any, num_pages: int) -> Iterator[Entry]:
    page_numbers = {page.indirect_reference.idnum: index for index, page in enumerate(reader.pages)}
    count = 0
    # Depth first without recursion: an outline may be nested as deep as its maker likes.
    stack: list[tuple[Iterator[Any], int]] = [(iter(reader.outline), 1)]
    while stack and count < _MOST_ENTRIES:
        items, level = stack[-1]
        item = next(items, None)
        if item is None:
            stack.pop()
        elif isinstance(item, list):
            stack.append((iter(item), level + 1))
        else:
            reference = getattr(item.page, "idnum", None)
            page = page_numbers.get(reference) if reference is not None else None
            title = " ".join(str(item.title or "").replace("\0", "").split())
            if page is not None and page < num_pages and title:
                count += 1
                yield Entry(title[:200], level, page)
