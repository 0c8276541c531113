"""Decides how lines of JSON are a question file: an object a line, its bytes kept, the answers added behind."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.batch.question import BatchError
from app.problem import Problem
from app.question_file.columns import Columns, Roles, roles_of
from app.question_file.table import Filled, Kind, Row, Table, Value
from app.question_file.text import TextForm
from app.terminal import plain

_BREAKS = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Line:
    """One object: its line from 1, the text of it, and what it says."""

    number: int
    text: str
    value: dict[str, Any]


@dataclass(frozen=True)
class JsonlFormat:
    """Lines of JSON. `texts` are the objects as they stood in the file, by the table's row; () where it was another."""

    form: TextForm
    texts: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return "jsonl"

    def write(self, filled: Filled) -> tuple[bytes, list[str]]:
        return self.form.write("".join(self.line(filled, row) for row in range(len(filled.table.rows))))

    def line(self, filled: Filled, row: int) -> str:
        """One row with its answers, as it stands in the file."""
        added = json_object(filled.names, filled.values[row], self.form)
        text = self.texts[row] if self.texts else self._made(filled.table, row)
        body = text.rstrip().removesuffix("}").rstrip()
        comma = "" if body.endswith("{") else ", "
        return body + comma + added.removeprefix("{") + self.form.newline

    def _made(self, table: Table, row: int) -> str:
        cells = table.rows[row].cells
        names = [name or f"column {at + 1}" for at, name in enumerate(table.names)]
        return json.dumps(dict(zip(names, cells, strict=False)), ensure_ascii=False)


def json_object(names: Sequence[str], values: Sequence[Value], form: TextForm) -> str:
    """An object of the values; what the file's encoding lacks is escaped."""
    fields = {name: _lasting(value) for name, value in zip(names, values, strict=True)}
    text = json.dumps(fields, ensure_ascii=False)
    return text if form.holds(text) else json.dumps(fields)


def read_jsonl(lines: Sequence[Line], form: TextForm, name: str, columns: Columns) -> tuple[Table, Roles, JsonlFormat]:
    """Reads an object a line; its keys are the columns, numbers and the like are read as text.

    Raises:
        Problem: `bad_question_file`.
    """
    names = tuple(dict.fromkeys(key for line in lines for key in line.value))
    roles = roles_of(names, columns, name)
    for line in lines:
        for column in (*roles.questions, roles.document, roles.kb, roles.id, roles.follow_up_of, roles.deadline):
            value = line.value.get(names[column]) if column is not None else None
            if isinstance(value, dict | list | bool):
                raise Problem(
                    "bad_question_file",
                    f"“{names[column or 0]}” on line {line.number} of {name} is no text but {_kind(value)}: write one "
                    "text there.",
                )
    rows = tuple(Row(line.number, tuple(_cell(line.value.get(key)) for key in names), not line.value) for line in lines)
    texts = tuple(line.text for line in lines)
    return Table(names, rows, place="line"), roles, JsonlFormat(form, texts)


def json_lines(text: str, name: str) -> Iterator[Line]:
    """The objects of a file; lines without anything on them are passed over.

    Raises:
        Problem: `bad_question_file`.
    """
    for number, line in enumerate(_BREAKS.split(text), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Problem(
                "bad_question_file",
                f"Line {number} of {name} is no JSON ({_where(error)}): write one object a line, for example "
                '{"question": "..."}.',
            ) from error
        if not isinstance(value, dict):
            raise Problem(
                "bad_question_file",
                f"Line {number} of {name} is {_kind(value)}: write one object a line, for example "
                '{"question": "..."}.',
            )
        yield Line(number, line.strip(), value)


def _where(error: Exception) -> str:
    return f"{error.msg} at character {error.colno}" if isinstance(error, json.JSONDecodeError) else "nested too deep"


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "true or false" if isinstance(value, bool) else "a single value"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _lasting(value: Value) -> Any:
    """What JSON keeps: lists as lists, an error as its code and message."""
    if isinstance(value, BatchError):
        return {"code": value.code, "message": value.message}
    if isinstance(value, datetime.date):
        return value.isoformat()
    return plain(value)
