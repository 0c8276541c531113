"""Decides how long work shows that it goes on: a bar where a person watches, one line a step where nobody does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Report = Callable[[str], None]
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Progress:
    """`report` gets one finished sentence a step; None keeps quiet. The bar goes to stderr if that is a terminal."""

    report: Report | None = None

    @property
    def is_watched(self) -> bool:
        return sys.stderr.isatty()

    def say(self, sentence: str) -> None:
        if self.report is not None:
            self.report(sentence)

    def say_unwatched(self, sentence: str) -> None:
        """For steps that the bar shows already."""
        if not self.is_watched:
            self.say(sentence)

    @contextmanager
    def bar(self, words: str, num_bytes: int) -> Iterator[Advance]:
        """Shows `words` and a bar of `num_bytes`; the function it gives adds bytes to it."""
        if not self.is_watched:
            yield lambda more: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with RichProgress(*columns, console=Console(stderr=True)) as shown:
            task = shown.add_task(words, total=num_bytes)
            yield lambda more: shown.advance(task, more)
            shown.update(task, completed=num_bytes)
