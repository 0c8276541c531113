"""What the app's tests bring along: texts of known facts, and a double in place of `app.power`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.power import EngineStatus
from engine.base import Engine, EngineError
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer
from engine.view import CacheView

Run = Callable[..., tuple[int, str, str]]
"""Takes a command's arguments; gives exit code, stdout and stderr."""

LIBRARY = """# The Marsh Lane Library

## Opening hours

The reading room opens at 9 in the morning on weekdays and at 11 on Saturdays. It closes at 18:30. On Sundays the house
is closed, except for the last Sunday of March, when the spring fair is held in the courtyard.

## Cards and fees

A reader's card costs 12 euros a year. Students pay 4 euros; children under fourteen pay nothing at all. A lost card is
replaced for 3 euros. Fees for late returns are 20 cents a day and never more than the price of the book itself.

## The map cellar

Maps are kept in the cellar below the east wing, where the air is dry. They are fetched twice a day, at 10:15 and at
14:45. The oldest map shows the salt road of 1587 and may be looked at only together with the keeper, Ottilie Brandt.
"""

METRO = """# 望江路站

望江路站位于城东区，是地铁四号线的换乘车站。该站于2009年9月28日启用，共有三个出口。站台长一百二十米。
"""


class FakePower:
    """In place of `app.power.Power`: hands out one fake engine, and counts.

    `runs` says whether there is an engine that was started before.
    """

    def __init__(self, engine: FakeEngine, tokenizer: Tokenizer) -> None:
        self.engine, self.tokenizer = engine, tokenizer
        self.view: CacheView | EngineError | None = None
        self.num_connects, self.released, self.lingers_s = 0, list[bool](), 0.0
        self.runs = False
        self.ended, self.kind, self.stays_with_page = False, "command", False
        self.freed: list[tuple[str, list[str]]] = []

    async def connect(self, report: Callable[[str], None]) -> tuple[Engine, Tokenizer]:
        self.num_connects += 1
        self.ended = False
        report("Loading the model ... 0 s")
        return self.engine, self.tokenizer

    def has_ended(self, wait_s: float = 0.0) -> bool:
        return self.ended

    def answers(self) -> bool:
        return not self.ended

    async def join(self) -> tuple[Engine, Tokenizer] | None:
        return (self.engine, self.tokenizer) if self.runs else None

    def free(self, namespace: str, is_meant: Callable[[str], bool]) -> int:
        """Frees what the engine was asked about, by name."""
        asked = {call.prompt.prefix for call in self.engine.calls if call.prompt.prefix.namespace == namespace}
        meant = [prefix for prefix in asked if is_meant(prefix.name)]
        self.freed.append((namespace, sorted(prefix.name for prefix in meant)))
        return sum(self.engine._named.free(prefix) for prefix in meant)

    def registered(self) -> tuple[tuple[str, str, float | None], ...]:
        return ()

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        self.engine._ledger.forget(lambda handle, name: is_meant(name))

    async def release(self, linger: bool) -> None:
        self.released.append(linger)

    def status(self) -> EngineStatus:
        return EngineStatus(False)

    def cache(self) -> CacheView | None:
        if isinstance(self.view, EngineError):
            raise self.view
        return self.view

    def stop(self, force: bool = False) -> bool:
        return False


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def long_text(chapters: int) -> str:
    """A manual of some 500 tokens a chapter; each chapter has one fact of its own, about a numbered pump."""
    filler = (
        "The bearings are greased every month and the filter is rinsed with clean water before the pump is run. " * 18
    )
    parts = ["# Pump manual"]
    for number in range(1, chapters + 1):
        fact = f"Pump {NAMES[number - 1]} runs at {number * 137} revolutions and is painted {COLOURS[number % 5]}."
        parts.append(f"## Chapter {number}: pump {NAMES[number - 1]}\n\n{fact} {filler}")
    return "\n\n".join(parts)


NAMES = ["Alder", "Birch", "Cedar", "Dogwood", "Elder", "Fir", "Ginkgo", "Hazel", "Ivy", "Juniper", "Kauri", "Larch"]
COLOURS = ["red", "blue", "green", "yellow", "white"]
