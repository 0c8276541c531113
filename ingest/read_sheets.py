"""Decides what a workbook or a table of values says: each sheet a page, its first row the names of its columns."""

from __future__ import annotations

import csv
import datetime
import io
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from ingest.archive import checked, translated
from ingest.blocks import Block, NewPage, Table, Title, Words, lay_out
from ingest.document import Document, IngestError
from ingest.encoding import decode
from ingest.sheet_notes import sheet_notes
from ingest.title import title_of

MOST_SHEETS = 1_000
"""A workbook may name one sheet ten thousand times; openpyxl opens each."""
MOST_CELLS = 3_000_000
_MOST_ROWS = 3_000_000
"""Empty ones too: a cell may claim to stand in any row."""
_SHEET = re.compile(rb"<(?:\w+:)?sheet\s")
_WORKBOOK = re.compile(r"xl/workbook\d*\.xml")
_WITHOUT_RESULT = re.compile(rb"<f\b(?:[^<>]*/>|[^<>]*>[^<]*</f>)\s*(?:<v\s*/>|<v></v>)?\s*</c>")
_SAMPLE_CHARACTERS = 64 * 1024
_ROWS_PER_REPORT = 2_000


def read_xlsx(data: bytes, document_id: str, name: str, page_done: Callable[[int, int], None]) -> Document:
    """Reads all sheets, hidden ones too; formulas give the value that was saved with them.

    Raises:
        IngestError: `corrupt`, `too_complex`, `too_large`, `password_required` or `empty_document`.
    """
    import openpyxl

    blocks: list[Block] = []
    hidden: list[str] = []
    cells = rows_seen = 0
    is_filled = False
    with checked(data, name, is_office=True) as parts, translated(name):
        _refuse_many_sheets(parts, name)
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        sheets = book.worksheets
        for number, sheet in enumerate(sheets, 1):
            if sheet.sheet_state != "visible":
                hidden.append(sheet.title)
            rows: list[tuple[str, ...]] = []
            # The size that a sheet claims may be a million rows of nothing.
            sheet.reset_dimensions()
            for count, row in enumerate(sheet.iter_rows(), 1):
                cells += len(row)
                rows_seen += 1
                if cells > MOST_CELLS or rows_seen > _MOST_ROWS:
                    raise IngestError(
                        "too_large",
                        f"{name} has more than {MOST_CELLS:,} cells or rows: save the sheets that matter alone.",
                    )
                values = tuple(cell_words(cell) for cell in row)
                if any(values):
                    rows.append(values)
                if count % _ROWS_PER_REPORT == 0:
                    page_done(number - 1, len(sheets))
            notes = list(sheet_notes(parts, sheet._worksheet_path))
            is_filled = is_filled or bool(rows or notes)
            blocks += [NewPage(sheet.title), Title(sheet.title, 1), Table(tuple(rows), has_header=len(rows) > 1)]
            # The first of them begins a paragraph.
            blocks += [Words(note.text, tight=number > 0) for number, note in enumerate(notes)]
            page_done(number, len(sheets))
        title = book.properties.title
        unsaved = _formulas_without_result(parts)
    if not is_filled:
        raise IngestError("empty_document", f"{name} has no filled cell: was the right file chosen?")
    laid = lay_out(blocks)
    warnings = [f"Hidden sheets were read too: {', '.join(hidden)}."] if hidden else []
    if unsaved:
        which = "1 formula has" if unsaved == 1 else f"{unsaved:,} formulas have"
        warnings.append(f"{which} no saved result and read as empty: open the file in its program and save it again.")
    return Document(document_id, title_of(name, title), "xlsx", laid.pages, laid.headings, tuple(warnings))


def _refuse_many_sheets(parts: zipfile.ZipFile, name: str) -> None:
    books = [part for part in parts.namelist() if _WORKBOOK.fullmatch(part)]
    num_sheets = max((len(_SHEET.findall(parts.read(book))) for book in books), default=0)
    if num_sheets > MOST_SHEETS:
        raise IngestError(
            "too_large",
            f"{name} has {num_sheets:,} sheets, the limit is {MOST_SHEETS:,}: save those that matter alone.",
        )


def _formulas_without_result(parts: zipfile.ZipFile) -> int:
    """Programs that write workbooks without calculating leave such; what they would give is not in the file."""
    sheets = [name for name in parts.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
    return sum(len(_WITHOUT_RESULT.findall(parts.read(name))) for name in dict.fromkeys(sheets))


def cell_words(cell: Any) -> str:
    """What a cell of openpyxl holds, as a person reads it; empty where nothing, dates as in ISO 8601."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        if "%" in (cell.number_format or ""):
            return f"{value * 100:.12g}%"
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        plain = value.date().isoformat()
        return plain if value.time() == datetime.time() else f"{plain} {value.time().isoformat('seconds')}"
    return str(value)


def read_csv(data: bytes, document_id: str, name: str) -> Document:
    """Reads comma, semicolon, tab or bar separated values; what turns out to be none is kept as the text that it is.

    Raises:
        IngestError: `unknown_encoding`, `garbled_text` or `empty_document`.
    """
    text, warnings = decode(data, name)
    text = text.replace("\0", "")
    if not text.strip():
        raise IngestError("empty_document", f"{name} holds nothing but white space: was the right file chosen?")
    rows = tuple(_rows(text, PurePath(name).suffix.lower()))
    blocks: list[Block] = [Table(rows, has_header=len(rows) > 1)] if rows else [Words(text)]
    laid = lay_out(blocks)
    return Document(document_id, title_of(name), "csv", laid.pages, laid.headings, tuple(warnings))


def _rows(text: str, suffix: str) -> Iterator[tuple[str, ...]]:
    csv.field_size_limit(max(131_072, len(text)))
    delimiter = "\t" if suffix == ".tsv" else delimiter_of(text)
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
        yield tuple(row)


def delimiter_of(text: str) -> str:
    """What divides most lines into equally many cells."""
    sample = [line for line in text[:_SAMPLE_CHARACTERS].splitlines()[:200] if line.strip()]
    best, best_score = ",", 0
    for delimiter in ",;\t|":
        counts = [len(row) for row in csv.reader(sample, delimiter=delimiter)]
        usual = max(set(counts), key=counts.count, default=1)
        score = counts.count(usual) if usual > 1 else 0
        if score > best_score:
            best, best_score = delimiter, score
    return best
