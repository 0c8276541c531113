"""Decides what goes where in a terminal: results on stdout, everything about the work on stderr, colour only for people.

With --json or --jsonl stdout carries JSON and nothing else. Progress shows only where stderr is a terminal.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from app.problem import Problem

if TYPE_CHECKING:
    from rich.console import Console

DONE, FAILED, USAGE, SOME_FAILED = 0, 1, 2, 3


@cache
def out() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


@cache
def err() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One line of JSON on stdout, flushed, so that a reader of a pipe has each row as it is ready."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def say(sentence: str) -> None:
    """A line about the work, on stderr."""
    err().print(sentence, style="dim", markup=False)


def complain(problem: Problem) -> None:
    """The one sentence of a failure, on stderr."""
    err().print(f"readonce: {problem.message}", style="red", markup=False)


def fail(problem: Problem, as_json: bool = False) -> NoReturn:
    """Ends the command with the problem's exit code; in JSON the code and the sentence are on stdout too."""
    if as_json:
        print_json({"error": {"code": problem.code, "message": problem.message}})
    complain(problem)
    raise SystemExit(USAGE if problem.usage else FAILED)


@contextmanager
def spinner(first: str) -> Iterator[Callable[[str], None]]:
    """Shows what is going on while it goes on, with its seconds; silent where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda sentence: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=err(), transient=True) as progress:
        task = progress.add_task(first, total=None)
        yield lambda sentence: progress.update(task, description=sentence)


def table(*heads: str, right: tuple[str, ...] = ()) -> Any:
    """A plain table; the columns named in `right` are right-aligned figures."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(head, justify="right" if head in right else "left", overflow="fold")
    return made


def safe(text: str) -> Any:
    """Text of a document or a model as it is: never read as markup, control characters shown as blanks."""
    from rich.text import Text

    return Text("".join(char if char.isprintable() or char in "\n\t" else " " for char in text))
