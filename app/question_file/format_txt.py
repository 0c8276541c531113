"""Decides how plain text is a question file: a question a line, its answer below it on lines that begin with a tab."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.question_file.answers import ANSWER_COLUMNS, LATE_COLUMN
from app.question_file.columns import Roles
from app.question_file.table import Filled, Kind, Row, Table, in_words
from app.question_file.text import TextForm
from app.terminal import count

_ANSWER = re.compile(rf"\t(?:(?:readonce_(?:\d+_)?)?(?:{'|'.join((*ANSWER_COLUMNS, LATE_COLUMN))}): |\t)")
_BREAKS = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class TxtFormat:
    """Lines."""

    form: TextForm

    @property
    def kind(self) -> Kind:
        return "txt"

    def write(self, filled: Filled) -> tuple[bytes, list[str]]:
        lines = []
        for at, row in enumerate(filled.table.rows):
            lines.append(" | ".join(row.cells))
            for name, value in zip(filled.names, filled.values[at], strict=True):
                first, *more = _BREAKS.split(in_words(value))
                if first or more:
                    lines += [f"\t{name}: {first}", *(f"\t\t{line}" for line in more)]
        return self.form.write("".join(line + self.form.newline for line in lines))


def read_txt(data: bytes, name: str) -> tuple[Table, Roles, TxtFormat, list[str]]:
    """Reads a question a line; the answers of an earlier run are passed over.

    Raises:
        IngestError: `unknown_encoding` or `garbled_text`.
    """
    text, form, said = TextForm.read(data, name)
    lines = _BREAKS.split(text)
    if lines[-1] == "":
        lines.pop()
    rows, passed = list[Row](), 0
    for number, line in enumerate(lines, 1):
        if rows and _ANSWER.match(line):
            passed += 1
        else:
            rows.append(Row(number, (line,), not line.strip()))
    if passed:
        said.append(f"{count(passed, 'line')} of an earlier run's answers passed over.")
    return Table(("question",), tuple(rows), place="line"), Roles((0,)), TxtFormat(form), said
