"""Decides how a workbook is a question file: the first sheet that asks, its cells kept, the answers beside them."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from app.problem import Problem
from app.question_file.columns import Columns, Roles, named
from app.question_file.table import Filled, Kind, Row, Table, Value, in_words
from app.terminal import count
from ingest.archive import checked, translated
from ingest.document import IngestError
from ingest.read_sheets import MOST_CELLS, cell_words
from ingest.sniff import kind_of

_MOST_CHARACTERS = 32_767
# What XML can't hold; Excel shows the same place as a box or nothing.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_WIDTHS = {"answer": 60.0, "quotes": 60.0, "source": 30.0, "error": 30.0}
_WIDTH = 14.0


@dataclass(frozen=True)
class XlsxFormat:
    """A workbook.

    Attributes:
        data: The file that the table was read from, empty where it was another format.
        sheet: The sheet's name there.
        first_free: The first column, from 1, behind all that stands there.
        has_macros: Whether it keeps a program of its own.
    """

    data: bytes = b""
    sheet: str = ""
    first_free: int = 1
    has_macros: bool = False

    @property
    def kind(self) -> Kind:
        return "xlsx"

    def write(self, filled: Filled) -> tuple[bytes, list[str]]:
        import openpyxl

        table = filled.table
        if self.data:
            book = openpyxl.load_workbook(io.BytesIO(self.data), keep_vba=self.has_macros)
            sheet, first = book[self.sheet], self.first_free
            header = table.header.number if table.header else None
            numbers = [row.number for row in table.rows]
        else:
            book = openpyxl.Workbook()
            sheet, first = book.active, len(table.names) + 1
            header, numbers = 1, list(range(2, len(table.rows) + 2))
            _write_table(sheet, table)
        if header is not None:
            _write_names(sheet, header, first, filled.names)
        num_cut = sum(
            _put(sheet, number, first + offset, value)
            for at, number in enumerate(numbers)
            for offset, value in enumerate(filled.values[at])
        )
        out = io.BytesIO()
        book.save(out)
        cut = f"{count(num_cut, 'text')} cut at {_MOST_CHARACTERS:,} characters, which is all that a cell holds."
        return out.getvalue(), [cut] if num_cut else []


def read_xlsx(data: bytes, name: str, columns: Columns) -> tuple[Table, Roles, XlsxFormat, list[str]]:
    """Reads the first sheet in which questions are found; formulas give the value that was saved with them.

    Raises:
        Problem: `bad_question_file`.
        IngestError: `corrupt`, `too_complex`, `too_large` or `password_required`.
    """
    import openpyxl

    if kind_of(data, name) != "xlsx":
        raise Problem("bad_question_file", f"{name} is no workbook: open it in its own program and save it as xlsx.")
    checked(data, name, is_office=True).close()
    with translated(name):
        book = openpyxl.load_workbook(io.BytesIO(data), data_only=True, keep_links=False)
    sheets = sorted(book.worksheets, key=lambda sheet: sheet.sheet_state != "visible")
    problem: Problem | None = None
    for sheet in sheets:
        with translated(name):
            rows, first_free = _rows(sheet, name)
        if not rows:
            continue
        try:
            table, roles = named(rows, columns, f"Sheet “{sheet.title}” of {name}")
        except Problem as error:
            problem = problem or error
            continue
        said = _said(sheet, [one for one in sheets if one is not sheet], table, roles)
        has_macros = name.lower().endswith(".xlsm")
        _refuse_unsaved(data, sheet, table, roles, name)
        return table, roles, XlsxFormat(data, sheet.title, first_free, has_macros), said
    raise problem or Problem("bad_question_file", f"{name} holds no question: write one a row, and try again.")


def _rows(sheet: Any, name: str) -> tuple[list[Row], int]:
    """All rows down to the last filled one, and the first column behind all of them."""
    # Not iter_rows, which makes a cell for every place up to the last one that anybody ever coloured.
    values: dict[tuple[int, int], str] = {
        at: cell_words(cell) for at, cell in sheet._cells.items() if cell.value is not None
    }
    own = {row for (row, _), text in values.items() if text.strip()}
    if not own:
        return [], 1
    last_row, last_column = max(own), max(column for (_, column), text in values.items() if text.strip())
    if last_row * last_column > MOST_CELLS:
        raise IngestError("too_large", f"{name} has more than {MOST_CELLS:,} cells: save the sheet that asks alone.")
    # Downwards only: what is merged across columns is a title, and no answer to what the next column asks for.
    for merged in sheet.merged_cells.ranges:
        text = values.get((merged.min_row, merged.min_col))
        if text is not None:
            for row in range(merged.min_row + 1, min(merged.max_row, last_row) + 1):
                values[row, merged.min_col] = text
    rows = [
        Row(row, tuple(values.get((row, column), "") for column in range(1, last_column + 1)), row not in own)
        for row in range(1, last_row + 1)
    ]
    reach = max((merged.max_col for merged in sheet.merged_cells.ranges), default=0)
    return rows, max(last_column, reach) + 1


def _said(sheet: Any, others: list[Any], table: Table, roles: Roles) -> list[str]:
    said = []
    if others:
        titles = ", ".join(f"“{other.title}”" for other in others[:5])
        said.append(f"Only the sheet “{sheet.title}” is read, not {titles}{' and more' if len(others) > 5 else ''}.")
    hidden = {number for number, row in sheet.row_dimensions.items() if row.hidden}
    num_hidden = sum(
        row.number in hidden and not row.is_empty and any(row.cell(column) for column in roles.questions)
        for row in table.rows
    )
    if num_hidden:
        said.append(f"{count(num_hidden, 'hidden row')} asked too.")
    return said


def _refuse_unsaved(data: bytes, sheet: Any, table: Table, roles: Roles, name: str) -> None:
    """A question that a formula makes, in a file that no spreadsheet program has saved, has no words yet."""
    import openpyxl

    first = table.header.number + 1 if table.header else 1
    columns = {column + 1 for column in roles.questions}
    places = sorted(
        at for at, cell in sheet._cells.items() if cell.value is None and at[0] >= first and at[1] in columns
    )
    if not places:
        return
    # Read once more for the formulas themselves, and only where a cell is there that holds nothing.
    cells: Mapping[tuple[int, int], Any] = openpyxl.load_workbook(io.BytesIO(data))[sheet.title]._cells
    formulas = [at for at in places if at in cells and cells[at].data_type == "f"]
    if formulas:
        raise Problem(
            "bad_question_file",
            f"Row {formulas[0][0]} of {name} makes its question by a formula whose value was not saved "
            f"({count(len(formulas), 'such cell')}): open the file in a spreadsheet program and save it.",
        )


def _write_table(sheet: Any, table: Table) -> None:
    """Names and cells of a table that was no workbook."""
    for column, name in enumerate(table.names, 1):
        _put(sheet, 1, column, name)
        sheet.column_dimensions[_letter(column)].width = _WIDTH * 2
    for at, row in enumerate(table.rows):
        for column, cell in enumerate(row.cells, 1):
            _put(sheet, at + 2, column, cell)


def _write_names(sheet: Any, row: int, first: int, names: Sequence[str]) -> None:
    """Names of the added columns, in the look of the name before them."""
    neighbour = sheet.cell(row, first - 1) if first > 1 else None
    for column, name in enumerate(names, first):
        _put(sheet, row, column, name)
        if neighbour is not None and neighbour.has_style:
            sheet.cell(row, column)._style = copy(neighbour._style)
        width = next((width for ending, width in _WIDTHS.items() if name.endswith(ending)), _WIDTH)
        sheet.column_dimensions[_letter(column)].width = width


def _put(sheet: Any, row: int, column: int, value: Value) -> bool:
    """Writes one cell, text never as a formula; says whether it had to be cut."""
    from openpyxl.styles import Alignment

    if value is None or value == "" or value == ():
        return False
    cell = sheet.cell(row, column)
    if isinstance(value, bool | int | float | datetime.date):
        cell.value = value
        return False
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], int):
        cell.value = value[0]
        return False
    text = _UNWRITABLE.sub("\ufffd", in_words(value))
    cell.value = text[:_MOST_CHARACTERS]
    cell.data_type = "s"
    cell.quotePrefix = text[:1] in ("=", "+", "-", "@")
    cell.alignment = Alignment(wrap_text=True, vertical="top")
    return len(text) > _MOST_CHARACTERS


def _letter(column: int) -> str:
    from openpyxl.utils import get_column_letter

    return str(get_column_letter(column))
