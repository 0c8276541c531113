"""Decides how a batch looks in a terminal while it runs: how far, how fast, how much was reused, how long still."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app import terminal
from app.batch.progress import Progress as BatchProgress
from app.batch.question import BatchAnswer

if TYPE_CHECKING:
    from rich.progress import Progress


class BatchBar:
    """One bar for the search and, after it, for the answers; silent where stderr is no terminal."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._task = progress.add_task("Searching", total=None, figures="") if progress else None

    def planned(self, done: int, total: int) -> None:
        """So many questions have been searched for."""
        if self._progress and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def told(self, answer: BatchAnswer | None, progress: BatchProgress) -> None:
        """An answer has come, or a document has been read."""
        if self._progress and self._task is not None:
            self._progress.update(
                self._task,
                description="Answering",
                completed=progress.num_done,
                total=progress.num_questions,
                figures=figures(progress),
            )


def figures(progress: BatchProgress) -> str:
    """ "2.1 questions/s, 96 % reused, 3 failed, 4 min left"; what is not known yet is left out."""
    said = []
    if progress.answers_per_s is not None:
        said.append(f"{progress.answers_per_s:.1f} questions/s")
    if progress.reuse is not None:
        said.append(f"{progress.reuse:.0%} reused".replace("%", " %"))
    if progress.num_failed:
        said.append(f"{progress.num_failed:,} failed")
    if progress.left_s is not None and progress.num_left:
        said.append(f"{lasting(progress.left_s)} left")
    return ", ".join(said)


def lasting(seconds: float) -> str:
    """ "40 s", "4 min", "1.5 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"


@contextmanager
def batch_bar() -> Iterator[BatchBar]:
    """On stderr, gone at the end."""
    if not sys.stderr.isatty():
        yield BatchBar(None)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=terminal.err(), transient=True) as progress:
        yield BatchBar(progress)
