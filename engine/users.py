"""Decides who counts as using an engine: pages, commands that ask, and whoever only keeps it running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from engine.wire import Line

Kind = Literal["command", "page", "holder"]
"""What a lease is of; "holder": of `readonce engine`, which asks nothing."""

KINDS: tuple[Kind, ...] = ("command", "page", "holder")


@dataclass(frozen=True)
class Users:
    """How many of each kind hold a lease."""

    commands: int = 0
    pages: int = 0
    holders: int = 0

    @property
    def words(self) -> str:
        """ "a page and 2 commands": those that would lose an answer. Empty where there are none."""
        named = (("page", self.pages), ("command", self.commands))
        return " and ".join(f"{number} {kind}s" if number > 1 else f"a {kind}" for kind, number in named if number)


def users_of(line: Line) -> Users:
    """Asks the keeper; one of an earlier version tells leases only.

    Raises:
        OSError: The keeper is gone.
    """
    told = line.ask("users").split()
    if len(told) == len(KINDS) and all(number.isdigit() for number in told):
        return Users(*map(int, told))
    return Users(int(line.ask("leases")))
