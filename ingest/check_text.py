"""Decides what must hold between a document's text and the parts it was cut into."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Literal

from ingest.document import PAGE_BREAK

Part = Literal["pages", "paragraphs", "passages", "sections"]
Span = tuple[int, int, int, int]
"""(number, page, start, end)."""


def broken_laws(connection: sqlite3.Connection, document_id: str, text: str) -> Iterator[tuple[Part, str]]:
    """The parts of a document that do not cover its text as they must, and what is wrong with them."""
    pages = connection.execute(
        'SELECT number, start, "end" FROM pages WHERE document_id = ? ORDER BY number', (document_id,)
    ).fetchall()
    if wrong := _pages(pages, text):
        yield "pages", wrong
        return  # the others stand on them
    bounds = {number: (start, end) for number, start, end in pages}
    paragraphs = _spans(connection, "paragraphs", document_id)
    if wrong := _cover(paragraphs, bounds, text):
        yield "paragraphs", wrong
    if wrong := _cover(_spans(connection, "passages", document_id), bounds, text):
        yield "passages", wrong
    if wrong := _sections(connection, document_id, paragraphs):
        yield "sections", wrong


def _spans(connection: sqlite3.Connection, table: str, document_id: str) -> list[Span]:
    rows = connection.execute(
        f'SELECT number, page, start, "end" FROM {table} WHERE document_id = ? ORDER BY number', (document_id,)
    )
    return [tuple(row) for row in rows]


def _pages(pages: Sequence[tuple[int, int, int]], text: str) -> str | None:
    at = 0
    for expected, (number, start, end) in enumerate(pages, 1):
        if number != expected:
            return f"page {expected} is missing"
        if start != at or not start <= end <= len(text):
            return f"page {number} does not begin where the one before it ends"
        if end < len(text) and text[end] != PAGE_BREAK:
            return f"page {number} ends in the middle of its text"
        at = end + len(PAGE_BREAK)
    return None if at == len(text) + len(PAGE_BREAK) else "they do not hold the whole text"


def _cover(spans: Sequence[Span], pages: dict[int, tuple[int, int]], text: str) -> str | None:
    """Numbered from 1, in order, each on its page, and nothing but white space between them."""
    at = 0
    for expected, (number, page, start, end) in enumerate(spans, 1):
        if number != expected:
            return f"number {expected} is missing"
        first, last = pages.get(page, (0, -1))
        if not first <= start < end <= last:
            return f"number {number} does not stand on its page"
        if start < at:
            return f"number {number} overlaps the one before it"
        if text[at:start].strip():
            return f"words before number {number} are left out"
        at = end
    return "words at the end are left out" if text[at:].strip() else None


def _sections(connection: sqlite3.Connection, document_id: str, paragraphs: Sequence[Span]) -> str | None:
    """Each kept budget: runs of paragraphs that follow each other from the first to the last."""
    rows = connection.execute(
        """SELECT budget, number, start, "end", first_page, last_page, first_paragraph, last_paragraph
           FROM sections WHERE document_id = ? ORDER BY budget, number""",
        (document_id,),
    ).fetchall()
    budgets = {row[0] for row in rows}
    for budget in sorted(budgets):
        after = 0
        kept = [row for row in rows if row[0] == budget]
        for expected, (_, number, start, end, first_page, last_page, first, last) in enumerate(kept, 1):
            if number != expected or first != after + 1 or not first <= last <= len(paragraphs):
                return f"those of {budget} tokens do not follow each other"
            opening, closing = paragraphs[first - 1], paragraphs[last - 1]
            if (start, end, first_page, last_page) != (opening[2], closing[3], opening[1], closing[1]):
                return f"number {number} of {budget} tokens is not where its paragraphs are"
            after = last
        if after != len(paragraphs):
            return f"those of {budget} tokens leave paragraphs out"
    return None
