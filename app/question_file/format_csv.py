"""Decides how separated values are read and written: any delimiter and encoding, and no cell that a spreadsheet runs.

Spreadsheets run a cell that begins with = + - or @. Such text is written with an apostrophe before it, and reading
takes one off again: the cells are the same, and nothing runs. Numbers ("-5", "+3.2 %") and dashes stay as they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.problem import Problem
from app.question_file.columns import Columns, Roles, likeness, named
from app.question_file.table import Filled, Kind, Row, Table, filled_cells, in_words
from app.question_file.text import FOR_SPREADSHEETS, TextForm
from ingest.read_sheets import delimiter_of

_RUN = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?\s?%?|-{1,3}")
_DECLARED = re.compile(r"sep=([^\"\r\n])\r?\n", re.IGNORECASE)
_DELIMITERS = ",;\t|"
_NO_DELIMITER = "\x1f"
_SAMPLE_CHARACTERS = 64 * 1024


def harmless(text: str) -> str:
    """`text` as no spreadsheet runs it; `original` gives it back."""
    return f"'{text}" if _RUN.match(text) and not _NUMBER.fullmatch(text) else text


def original(text: str) -> str:
    """The inverse of `harmless`, which never begins with one apostrophe before = + - or @ unless it was put there."""
    return text[1:] if text.startswith("'") and _RUN.match(text) else text


@dataclass(frozen=True)
class CsvFormat:
    """Separated values. `declares` is true where the file's first line names the delimiter, as Excel understands."""

    form: TextForm = FOR_SPREADSHEETS
    delimiter: str = ","
    declares: bool = False

    @property
    def kind(self) -> Kind:
        return "csv"

    def write(self, filled: Filled) -> tuple[bytes, list[str]]:
        table = filled.table
        width = len(table.names)
        lines = [list(row.cells) for row in table.above]
        if table.header is not None:
            lines.append(filled_cells(table.header.cells, width) + list(filled.names))
        elif any(table.names):
            lines.append([*table.names, *filled.names])
        for at, row in enumerate(table.rows):
            added = [in_words(value) for value in filled.values[at]]
            # A line with nothing on it stays one.
            lines.append(filled_cells(row.cells, width) + added if row.cells or any(added) else [])
        declared = f"sep={self.delimiter}{self.form.newline}" if self.declares else ""
        return self.form.write(declared + "".join(self._line(cells) for cells in lines))

    def _line(self, cells: Sequence[str]) -> str:
        out = io.StringIO()
        # With this line end a cell that holds either half of it is quoted, which one with "\n" alone doesn't do.
        csv.writer(out, delimiter=self.delimiter, lineterminator="\r\n").writerow([harmless(cell) for cell in cells])
        return out.getvalue().removesuffix("\r\n") + self.form.newline


def read_csv(
    data: bytes, name: str, columns: Columns, suffix: str = ".csv"
) -> tuple[Table, Roles, CsvFormat, list[str]]:
    """Reads comma, semicolon, tab or bar separated values.

    Raises:
        Problem: `bad_question_file`.
        IngestError: `unknown_encoding` or `garbled_text`.
    """
    text, form, said = TextForm.read(data, name)
    declared = _DECLARED.match(text)
    if declared:
        text = text[declared.end() :]
    delimiter = declared.group(1) if declared else _delimiter(text, suffix, columns)
    table, roles = named(list(_rows(text, delimiter, name)), columns, name)
    _refuse_overhang(table, name)
    format_ = CsvFormat(form, "," if delimiter == _NO_DELIMITER else delimiter, declared is not None)
    return table, roles, format_, said


def _rows(text: str, delimiter: str, name: str) -> Iterator[Row]:
    csv.field_size_limit(max(131_072, len(text)))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number = 0
    while True:
        number += 1
        begins = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            what = (
                "opens a quote that is never closed"
                if "unexpected end" in str(error)
                else f"is not well formed ({error})"
            )
            raise Problem(
                "bad_question_file",
                f"Row {number} of {name} (line {begins}) {what}: double the quotes that stand inside a quoted cell, "
                "and close it.",
            ) from error
        if cells is None:
            return
        yield Row(number, tuple(original(cell) for cell in cells), not any(cell.strip() for cell in cells))


def _delimiter(text: str, suffix: str, columns: Columns) -> str:
    """What makes names of one of the first lines; else what divides most lines alike."""
    lines = [line for line in text[:_SAMPLE_CHARACTERS].splitlines() if line.strip()][:10]
    if any(likeness((line.strip(' "'),), columns) for line in lines[:1]):
        return _NO_DELIMITER
    scores = {
        delimiter: max((likeness(row, columns) for row in csv.reader(lines, delimiter=delimiter)), default=0)
        for delimiter in _DELIMITERS
    }
    best = max(scores, key=lambda delimiter: scores[delimiter])
    if scores[best]:
        return best
    return "\t" if suffix == ".tsv" and "\t" in text else delimiter_of(text)


def _refuse_overhang(table: Table, name: str) -> None:
    """A cell beyond the names comes from a delimiter inside a question: asked as it is, the question would be cut."""
    if table.header is None:
        return
    width = len(table.header.cells)
    long = [row for row in table.rows if any(cell.strip() for cell in row.cells[width:])]
    if long:
        others = f" (and {len(long) - 1:,} more rows)" if len(long) > 1 else ""
        raise Problem(
            "bad_question_file",
            f"Row {long[0].number} of {name}{others} has {len(long[0].cells)} cells, but there are {width} names: put "
            "texts that hold the delimiter in quotes.",
        )
