"""Decides how what a marked-up file holds (headings, paragraphs, tables, page breaks) becomes text with places.

A table becomes lines of cells between bars, its header row underlined, as in Markdown: rows and cells survive in plain
text, language models read it well, and a long table says its header again so that every part of it can be understood.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from ingest.document import PAGE_BREAK, Heading, Page

_ROWS_PER_HEADER = 25
_MOST_FILLED = 3_000_000


@dataclass(frozen=True)
class Title:
    """A heading; `level` 1 is the highest."""

    text: str
    level: int


@dataclass(frozen=True)
class Words:
    """A paragraph. `tight`: it follows on the next line, as the items of a list do."""

    text: str
    tight: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells. `has_header`: the first row names the columns."""

    rows: tuple[tuple[str, ...], ...]
    has_header: bool = False


@dataclass(frozen=True)
class NewPage:
    """Whatever follows stands on a page of its own, called `label` where the file names it."""

    label: str | None = None


Block = Title | Words | Table | NewPage


@dataclass(frozen=True)
class Laid:
    """Pages, and headings whose places count characters of the pages joined as in `Document.text`."""

    pages: tuple[Page, ...]
    headings: tuple[Heading, ...]

    @property
    def is_empty(self) -> bool:
        return not any(page.text.strip() for page in self.pages)


def lay_out(blocks: Iterable[Block]) -> Laid:
    """Puts blocks one after the other; a `NewPage` before all others names the first page."""
    texts: list[list[str]] = [[]]
    labels: list[str | None] = [None]
    headings: list[Heading] = []
    at = 0
    begun = False
    for block in blocks:
        if isinstance(block, NewPage):
            if begun:
                at += len(PAGE_BREAK)
                texts.append([])
                labels.append(None)
            labels[-1] = block.label
            begun = True
            continue
        begun = True
        text = _text(block)
        if not text:
            continue
        if texts[-1]:
            between = "\n" if isinstance(block, Words) and block.tight else "\n\n"
            texts[-1].append(between)
            at += len(between)
        if isinstance(block, Title):
            headings.append(Heading(text, block.level, at))
        texts[-1].append(text)
        at += len(text)
    pages = tuple(
        Page(number, "".join(pieces), label)
        for number, (pieces, label) in enumerate(zip(texts, labels, strict=True), start=1)
    )
    return Laid(pages, tuple(headings))


def _text(block: Title | Words | Table) -> str:
    if isinstance(block, Title):
        return " ".join(_sound(block.text).split())
    if isinstance(block, Words):
        return _sound(block.text).strip()
    return table_text(block)


def table_text(table: Table) -> str:
    """One line a row, `| a | b |`; rows and columns that hold nothing are left out.

    Every row is as long as the longest, but where one long row among many short ones would make mostly bars.

    `lay_out` leaves out the empty; a cell's own bar is written with a backslash before it.
    """
    rows = [[_cell(value) for value in row] for row in table.rows]
    width = max((len(row) for row in rows), default=0)
    is_even = len(rows) * width <= _MOST_FILLED
    if is_even:
        rows = [row + [""] * (width - len(row)) for row in rows]
    used = sorted({column for row in rows for column, value in enumerate(row) if value})
    lines = [
        "| " + " | ".join(row[at] for at in used[: bisect_left(used, len(row))]) + " |" for row in rows if any(row)
    ]
    if not lines:
        return ""
    if not (table.has_header and any(rows[0])):
        return "\n".join(lines)
    head = [lines[0], "|" + " --- |" * len(used)]
    body = lines[1:]
    step = _ROWS_PER_HEADER if is_even else len(body)
    parts = [body[first : first + step] for first in range(0, len(body), step)] if body else [[]]
    return "\n\n".join("\n".join(head + part) for part in parts)


def _cell(value: str) -> str:
    return " ".join(_sound(value).split()).replace("|", "\\|")


def _sound(text: str) -> str:
    """Without what means something to us: a form feed ends a page, NUL ends a text."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace(PAGE_BREAK, "\n").replace("\0", "")
