"""Decides what goes where in a terminal: results on stdout, what is said about the work on stderr, colour for people.

With --json or --jsonl stdout carries JSON and nothing else. Progress shows only where stderr is a terminal.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

from app.problem import Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.status import Status

_LASTING = re.compile(r"(.*\S) \.\.\. \d+ s")

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
    line = json.dumps(plain(value), ensure_ascii=False)
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a terminal that is not UTF-8, or a file name that is no Unicode
        line = json.dumps(plain(value))
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def prepare_streams() -> None:
    """Has what a stream can't show written as an escape, and lets closed streams (`>&-`) be."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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


class Steps:
    """Says what is going on: a finished sentence stays as a line; what lasts ("Loading ... 12 s") turns on the spot.

    Where stderr is no terminal, what lasts is said once.
    """

    def __init__(self) -> None:
        self._status: Status | None = None
        self._said = ""

    def __call__(self, words: str) -> None:
        lasting = _LASTING.fullmatch(words)
        if lasting is None:
            self.done()
            say(words)
        elif sys.stderr.isatty():
            self.busy(words)
        elif lasting.group(1) != self._said:
            self._said = lasting.group(1)
            say(self._said)

    def busy(self, words: str) -> None:
        """Turns a wheel beside `words` until `done`; silent where stderr is no terminal."""
        if not sys.stderr.isatty():
            return
        if self._status is None:
            self._status = err().status("")
            self._status.start()
        self._status.update(safe(words))

    def done(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


@contextmanager
def steps() -> Iterator[Steps]:
    made = Steps()
    try:
        yield made
    finally:
        made.done()


class Bars:
    """A bar for all items and one for each item at hand, with its stage; silent without a `progress`.

    Items may be at hand side by side, and reported from any thread.
    """

    def __init__(self, progress: Progress | None, what: str, count: int) -> None:
        self._progress = progress
        self._all = progress.add_task(what, total=count) if progress else None
        self._at_hand: dict[str, TaskID] = {}
        self._lock = Lock()

    def report(self, name: str, stage: str, done: int, total: int) -> None:
        """The item `name` is at `stage`; without a name, all of them are."""
        if self._progress is None:
            return
        with self._lock:
            words = f"{stage} {name}".strip()
            if name not in self._at_hand:
                self._at_hand[name] = self._progress.add_task(words, total=None)
            self._progress.update(self._at_hand[name], description=words, completed=done, total=total or None)

    def stage(self, name: str) -> Callable[[str, int, int], None]:
        """Takes (stage, done, total) of the item `name`."""
        return partial(self.report, name)

    def next(self, name: str | None = None) -> None:
        """One item is done: `name`, or whatever was at hand."""
        if self._progress is None or self._all is None:
            return
        with self._lock:
            for done in [name] if name is not None else list(self._at_hand):
                if done in self._at_hand:
                    self._progress.remove_task(self._at_hand.pop(done))
            self._progress.advance(self._all)


@contextmanager
def bars(what: str, count: int) -> Iterator[Bars]:
    """Progress over `count` items on stderr, gone at the end; silent where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield Bars(None, what, count)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    with Progress(
        text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=err(), transient=True
    ) as progress:
        yield Bars(progress, what, count)


def table(*heads: str, right: tuple[str, ...] = ()) -> Any:
    """A plain table; the columns named in `right` are right-aligned figures."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(head, justify="right" if head in right else "left", overflow="fold")
    return made


def count(number: int, noun: str) -> str:
    """`1 page`, `1,214 pages`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def safe(text: str) -> Any:
    """Text of a document or a model as it is: never read as markup, control characters shown as blanks."""
    from rich.text import Text

    return Text("".join(char if char.isprintable() or char in "\n\t" else " " for char in text))
