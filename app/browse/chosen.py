"""Decides which document a chat begins with that was opened from a document's page: remembered for a moment, once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# Long enough for a slow phone to load the chat.
KEPT_S = 120.0


@dataclass(frozen=True)
class Choice:
    kb: str
    doc_id: str


class Chosen:
    """What each person chose last. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_person: dict[str, tuple[float, Choice]] = {}

    def put(self, person: str, choice: Choice) -> None:
        now = self._clock()
        self._by_person = {name: kept for name, kept in self._by_person.items() if now - kept[0] < KEPT_S}
        self._by_person[person] = now, choice

    def look(self, person: str) -> Choice | None:
        at, choice = self._by_person.get(person, (0.0, None))
        return choice if choice is not None and self._clock() - at < KEPT_S else None

    def take(self, person: str) -> Choice | None:
        """As `look`, and forgets it: the chat after the next begins as always."""
        choice = self.look(person)
        self._by_person.pop(person, None)
        return choice
