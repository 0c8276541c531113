"""Decides what every question file is once its format is gone: rows of cells under names, and columns added to them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from app.answer import Citation
from app.batch.question import BatchAnswer, BatchError

Kind = Literal["csv", "xlsx", "jsonl", "txt", "openai"]
Scalar = str | bool | int | float | datetime.date | None
Value = Scalar | BatchError | tuple[int, ...] | tuple[str, ...] | tuple[Citation, ...]


@dataclass(frozen=True)
class Row:
    """One row or line.

    Attributes:
        number: As the program that made the file counts it, from 1.
        cells: At most as many as the table has columns.
        is_empty: Whether it holds nothing of its own; a merged cell of an earlier row may reach into it.
    """

    number: int
    cells: tuple[str, ...]
    is_empty: bool

    def cell(self, column: int | None) -> str:
        """Its text, without blanks around it; empty where there is none."""
        return self.cells[column].strip() if column is not None and column < len(self.cells) else ""


@dataclass(frozen=True)
class Table:
    """What was read.

    Attributes:
        names: Of all columns, "" where one has none.
        above: Rows over the names: titles.
        header: The row of the names, None where there is none, or the format needs none.
        rows: All below, empty ones too, in the file's order.
        place: What people call a row of such a file.
    """

    names: tuple[str, ...]
    rows: tuple[Row, ...]
    above: tuple[Row, ...] = ()
    header: Row | None = None
    place: Literal["row", "line"] = "row"


@dataclass(frozen=True)
class Filled:
    """A table with its answers.

    Attributes:
        names: Of the added columns; none of them is a name of the table's.
        values: By the table's rows from 0: what stands in the added columns.
        answers: By the same: the answers to the row's questions, None where there is none yet.
    """

    table: Table
    names: tuple[str, ...]
    values: Mapping[int, tuple[Value, ...]]
    answers: Mapping[int, tuple[BatchAnswer | None, ...]]


class Format(Protocol):
    """How a table was written, and so is written again."""

    @property
    def kind(self) -> Kind: ...

    def write(self, filled: Filled) -> tuple[bytes, list[str]]:
        """The whole file, and sentences about what could not be kept."""


def in_words(value: Value) -> str:
    """A value as one cell of text: lists of numbers in a line, lists of quotes a line each."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, BatchError):
        return f"{value.code}: {value.message}"
    if isinstance(value, tuple):
        texts = [item.quote if isinstance(item, Citation) else str(item) for item in value]
        return (", " if value and isinstance(value[0], int) else "\n").join(texts)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def filled_cells(cells: Sequence[str], width: int) -> list[str]:
    """`cells` with empty ones behind them, so that what follows stands in the right column."""
    return [*cells, *[""] * (width - len(cells))]
