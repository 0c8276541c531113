"""Decides how answers go out: in the file's own format or another, whole in one step, or line by line as they come."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from app.batch.question import BatchAnswer
from app.problem import Problem
from app.question_file.answers import filled
from app.question_file.format_csv import CsvFormat
from app.question_file.format_jsonl import JsonlFormat
from app.question_file.format_openai import OpenAiFormat
from app.question_file.format_txt import TxtFormat
from app.question_file.format_xlsx import XlsxFormat
from app.question_file.read import QuestionFile, kind_by_name
from app.question_file.schema import Field, fields_of
from app.question_file.table import Filled, Format
from app.question_file.text import FOR_SPREADSHEETS, PLAIN
from app.question_file.whole import check_place, write_whole


def check_output(file: QuestionFile, out: Path) -> None:
    """Says before anything is asked whether the answers can be written to `out`; writes nothing.

    Raises:
        Problem: `bad_output`.
    """
    format_of(file, out)
    if out.exists() and file.path.exists() and out.samefile(file.path):
        raise Problem("bad_output", f"{out} is the file of questions itself: name another one.", usage=True)
    check_place(out)


def write_answers(
    file: QuestionFile, answers: Iterable[BatchAnswer], out: Path, *, schema: str = "", with_late: bool = False
) -> tuple[str, ...]:
    """Writes all rows with the answers there are, in one step: `out` is whole, or as it was.

    Encoding, delimiter and cells are the file's where `out` ends as the file does; another ending gives that format.
    Returns sentences about what could not be kept.

    Args:
        schema: The JSON schema that the answers hold to, as text: each of its properties gets a column (in csv, xlsx
            and jsonl).
        with_late: Adds how late each answer came, also where the file has no column of deadlines.

    Raises:
        Problem: `bad_output`.
        OSError: What the disk refuses.
    """
    format_ = format_of(file, out)
    rows = range(len(file.table.rows))
    data, said = format_.write(_filled(file, answers, format_, rows, fields_of(schema), with_late))
    write_whole(out, data)
    return tuple(said)


class LiveAnswers:
    """Writes each row as soon as all its questions are answered, on the disk when `add` returns.

    Rows stand in the order of their answers until `write_answers` puts the whole file in its place. Formats that are no
    lines (csv, xlsx, txt) are written at the end only; `add` does nothing for them. A context manager.
    """

    def __init__(self, file: QuestionFile, out: Path, *, schema: str = "", with_late: bool = False) -> None:
        """Empties `out`, where it is one of lines.

        Raises:
            Problem: `bad_output`.
            OSError: What the disk refuses.
        """
        self._file = file
        self._fields, self._with_late = fields_of(schema), with_late
        self._format = format_of(file, out)
        self._waiting: dict[int, list[BatchAnswer]] = {}
        self._target: BinaryIO | None = None
        if isinstance(self._format, JsonlFormat | OpenAiFormat):
            self._num_questions: dict[int, int] = {}
            for place in file.places:
                self._num_questions[place.row] = self._num_questions.get(place.row, 0) + 1
            self._target = open(out, "wb")  # noqa: SIM115, closed by __exit__

    def add(self, answer: BatchAnswer) -> None:
        if self._target is None or not isinstance(self._format, JsonlFormat | OpenAiFormat):
            return
        row = self._file.places[answer.row].row
        answers = self._waiting.setdefault(row, [])
        answers.append(answer)
        if len(answers) < self._num_questions[row]:
            return
        answered = self._waiting.pop(row)
        filled_row = _filled(self._file, answered, self._format, (row,), self._fields, self._with_late)
        line = self._format.line(filled_row, row)
        is_first = self._target.tell() == 0
        form = self._format.form
        # The mark of the encoding opens the file, not each line.
        data, _ = (form if is_first else replace(form, mark=b"")).write(line)
        self._target.write(data)
        self._target.flush()
        os.fsync(self._target.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._target is not None:
            self._target.close()


def format_of(file: QuestionFile, out: Path) -> Format:
    """How `out` is written, by its ending.

    Raises:
        Problem: `bad_output`.
    """
    kind, suffix = kind_by_name(out, "answers", code="bad_output"), out.suffix.lower()
    own, own_suffix = file.format, file.path.suffix.lower()
    if own.kind == "openai" and kind != "jsonl":
        raise Problem(
            "bad_output", f"Requests of OpenAI's format are answered in a .jsonl file: rename {out}.", usage=True
        )
    if suffix == ".xlsm" and not (isinstance(own, XlsxFormat) and own.has_macros):
        raise Problem(
            "bad_output", f"{out} would be a workbook with macros, and there are none: call it .xlsx.", usage=True
        )
    if own.kind == "openai" or suffix == own_suffix:
        return own
    delimiter = "\t" if suffix == ".tsv" else ","
    if kind == own.kind:
        if isinstance(own, CsvFormat):
            return replace(own, delimiter=delimiter)
        return replace(own, has_macros=False) if isinstance(own, XlsxFormat) else own
    if kind == "csv":
        return CsvFormat(FOR_SPREADSHEETS, delimiter)
    if kind == "xlsx":
        return XlsxFormat()
    return JsonlFormat(PLAIN) if kind == "jsonl" else TxtFormat(PLAIN)


def _filled(
    file: QuestionFile,
    answers: Iterable[BatchAnswer],
    format_: Format,
    rows: Iterable[int],
    fields: tuple[Field, ...],
    with_late: bool,
) -> Filled:
    return filled(
        file.table,
        file.roles,
        file.places,
        answers,
        rows=tuple(rows),
        with_late=with_late or file.roles.deadline is not None,
        with_citations=format_.kind == "jsonl",
        # In text they would be read as questions the next time, and the answer says the same.
        fields=() if format_.kind == "txt" else fields,
    )
