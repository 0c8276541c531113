"""What the tests of question files write: text or bytes, and small workbooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def saved(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def workbook(
    folder: Path,
    name: str,
    rows: Sequence[Sequence[Any]],
    merged: Sequence[str] = (),
    build: Callable[[Any], None] | None = None,
) -> Path:
    """One sheet of `rows`; `build` may change the book further."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cells in merged:
        book.active.merge_cells(cells)
    if build:
        build(book)
    book.save(folder / name)
    return folder / name
