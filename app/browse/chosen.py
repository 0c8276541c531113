"""Decides which document a chat begins with that was opened from a document's page: remembered for a moment, once."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.page.documents import Choice

# Long enough for a slow phone to load the chat.
KEPT_S = 120.0
# The chat begins, and asks for its first questions in the same moment.
TAKEN_S = 10.0


class Chosen:
    """What each person chose last. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_person: dict[str, tuple[float, Choice]] = {}

    def put(self, person: str, choice: Choice) -> None:
        now = self._clock()
        self._by_person = {name: kept for name, kept in self._by_person.items() if now < kept[0]}
        self._by_person[person] = now + KEPT_S, choice

    def look(self, person: str) -> Choice | None:
        until, choice = self._by_person.get(person, (0.0, None))
        return choice if self._clock() < until else None

    def take(self, person: str) -> Choice | None:
        """As `look`, for the chat that begins now: a later one begins as always."""
        choice = self.look(person)
        if choice is not None:
            until = min(self._by_person[person][0], self._clock() + TAKEN_S)
            self._by_person[person] = until, choice
        return choice
