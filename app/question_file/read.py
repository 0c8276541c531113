"""Decides what a file of questions is once read: its questions, and all that is needed to write it again."""

from __future__ import annotations

import codecs
import time
from dataclasses import dataclass
from pathlib import Path

from app.batch.question import BatchQuestion
from app.problem import Problem
from app.question_file.columns import Columns, Roles, likeness
from app.question_file.format_csv import read_csv
from app.question_file.format_jsonl import json_lines, read_jsonl
from app.question_file.format_openai import OpenAiFormat, is_openai, read_openai
from app.question_file.format_txt import TxtFormat, read_txt
from app.question_file.format_xlsx import read_xlsx
from app.question_file.rows import Place, asked
from app.question_file.table import Format, Kind, Table
from app.question_file.text import TextForm

MOST_BYTES = 512 * 1024 * 1024
READABLE = "jsonl, csv, tsv, xlsx and txt"
_KIND_OF: dict[str, Kind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".txt": "txt",
    ".text": "txt",
}
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True)
class QuestionFile:
    """A file of questions, and all that is needed to write it again with their answers.

    Attributes:
        questions: In the file's order; `BatchQuestion.row` counts them.
        places: Where each of them stands.
        said: Sentences for the person: which columns were taken, what was skipped, renamed or doubtful.
        num_refused: Requests of OpenAI's format that can't be asked; their responses say why.
    """

    path: Path
    table: Table
    roles: Roles
    format: Format
    questions: tuple[BatchQuestion, ...]
    places: tuple[Place, ...]
    said: tuple[str, ...]
    num_refused: int = 0


def read_questions(path: Path, columns: Columns | None = None) -> QuestionFile:
    """Reads a file of questions.

    Raises:
        Problem: `bad_question_file`: which row or column is wrong, and what to do.
        IngestError: Bytes that can't be read: `unknown_encoding`, `garbled_text`, `corrupt`, `too_complex`, `too_large`
            or `password_required`.
        OSError: What the disk refuses.
    """
    columns = columns or Columns()
    data = _bytes(path)
    name = path.name
    kind = "xlsx" if data.startswith(_ZIP) else kind_by_name(path, "a file of questions")
    format_: Format
    if kind == "xlsx":
        table, roles, format_, said = read_xlsx(data, name, columns)
    elif kind == "csv":
        table, roles, format_, said = read_csv(data, name, columns, path.suffix.lower())
    elif kind == "txt" and not _is_table(data, name, columns):
        table, roles, format_, said = read_txt(data, name)
    elif kind == "txt":
        table, roles, format_, said = read_csv(data, name, columns, ".tsv")
    else:
        text, form, said = TextForm.read(data, name)
        lines = list(json_lines(text, name))
        if not lines:
            raise Problem("bad_question_file", f"{name} holds no question: write one a line, and try again.")
        if is_openai(lines):
            table, roles, format_, more = read_openai(lines, form, name, columns, int(time.time()))
            said = [*said, *more]
        else:
            table, roles, format_ = read_jsonl(lines, form, name, columns)
    found = asked(table, roles, name)
    num_refused = sum(error is not None for error in format_.refused) if isinstance(format_, OpenAiFormat) else 0
    which = [] if kind == "txt" and isinstance(format_, TxtFormat) else [_columns_words(table, roles)]
    return QuestionFile(
        path, table, roles, format_, found.questions, found.places, (*said, *which, *found.said), num_refused
    )


def kind_by_name(path: Path, what: str, code: str = "bad_question_file") -> Kind:
    kind = _KIND_OF.get(path.suffix.lower())
    if kind is None:
        ending = f"ends in {path.suffix}" if path.suffix else "has no ending"
        advice = "write one object a line and call it .jsonl" if path.suffix.lower() == ".json" else "choose another"
        raise Problem(code, f"{path.name} {ending}, but {what} can be {READABLE}: {advice}.", usage=True)
    return kind


def _bytes(path: Path) -> bytes:
    if not path.exists():
        raise Problem("bad_question_file", f"{path} isn't there: check the name.", usage=True)
    if path.is_dir():
        raise Problem("bad_question_file", f"{path} is a folder: name a file of questions.", usage=True)
    if path.stat().st_size > MOST_BYTES:
        raise Problem("bad_question_file", f"{path.name} has more than {MOST_BYTES // 2**20} MiB: split it.")
    data = path.read_bytes()
    if not data.removeprefix(codecs.BOM_UTF8).strip():
        raise Problem("bad_question_file", f"{path.name} is empty: write a question a row, and try again.")
    return data


def _is_table(data: bytes, name: str, columns: Columns) -> bool:
    """Whether a text file is what Excel calls Unicode text: names and values divided by tabs."""
    text, _, _ = TextForm.read(data, name)
    first = next((line for line in text.splitlines() if line.strip()), "")
    return "\t" in first.strip() and likeness(first.split("\t"), columns) > 0


def _columns_words(table: Table, roles: Roles) -> str:
    told = roles.words(table.names)
    if any(table.names):
        return told
    return f"{told} No names stand over the columns: the first {table.place} is asked too."
