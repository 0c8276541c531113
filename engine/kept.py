"""Decides what is known of kept ids and prefixes without an engine: whose they are, and how they are erased."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from engine.shelf import SHELF_NAME, Facts, Rows, Shelf


def documents_of(tokens: Path) -> frozenset[str]:
    """The documents whose sections' ids are kept in the file of `engine.tokens`; empty where it can't be read."""
    return frozenset(_column(tokens, "SELECT DISTINCT document FROM places"))


def names_of(ledger: Path) -> frozenset[str]:
    """The names of the prefixes that the file of `engine.ledger` remembers; empty where it can't be read."""
    return frozenset(_column(ledger, "SELECT DISTINCT name FROM asked"))


def on_shelf(folder: Path) -> tuple[Facts, ...]:
    """The prefixes registered in a server's folder of state, which need not run.

    Raises:
        EngineError: `state_unusable`.
    """
    if not (folder / SHELF_NAME).exists():
        return ()
    with closing(Shelf(folder)) as shelf:
        return tuple(shelf.run(Rows.all))


def erase_from_shelf(folder: Path, is_meant: Callable[[Facts], bool]) -> int:
    """Erases registered prefixes and their ids where no server runs; returns how many.

    Raises:
        EngineError: `state_unusable`.
    """
    if not (folder / SHELF_NAME).exists():
        return 0

    def work(rows: Rows) -> int:
        meant = [facts for facts in rows.all() if is_meant(facts)]
        for facts in meant:
            rows.delete(facts.id)
        return len(meant)

    with closing(Shelf(folder)) as shelf:
        return shelf.run(work)


def _column(path: Path, query: str) -> list[str]:
    if path.exists():
        # Whoever uses the file makes it anew where it is broken.
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as connection:
            return [str(row[0]) for row in connection.execute(query)]
    return []
