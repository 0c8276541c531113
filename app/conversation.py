"""Decides what a conversation keeps between questions: raw ids for the prompt, questions to search with, what was read.

A conversation only grows at its end, so that every turn finds the turns before it in the engine's cache.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from app.question import leans

SEARCHED_BACK = 6


@dataclass(frozen=True)
class Turn:
    """A question that was put to the model.

    Attributes:
        ids: The turn's tail and the model's raw answer as `engine.prompt` closes them; of a stopped answer, what came.
        doc_id, sections: What was read, sections by number, ascending.
        kb: The base that it lies in; empty where that is not known.
    """

    question: str
    ids: tuple[int, ...]
    doc_id: str
    sections: tuple[int, ...]
    kb: str = ""


@dataclass
class Conversation:
    """The turns of one chat, oldest first. Holds nothing of the engine's: it survives a restart of it.

    `first` is the oldest turn that the model still sees. When the room is used up, old turns leave until half of it is
    free: leaving one by one would move all later turns at every question, and none would be found in the cache.
    """

    turns: list[Turn] = field(default_factory=list)
    first: int = 0

    @property
    def last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    def earlier_questions(self) -> tuple[str, ...]:
        """What "and a service?" is searched with, oldest first: back to the last question that stands by itself."""
        found: list[str] = []
        for turn in reversed(self.turns[-SEARCHED_BACK:]):
            found.insert(0, turn.question)
            if not leans(turn.question):
                break
        return tuple(found)

    def history_ids(self, at_most: int) -> tuple[int, ...]:
        """The ids of the turns that the model still sees, oldest first; makes room where they exceed `at_most`."""
        if self._num_ids > at_most:
            while self.first < len(self.turns) and self._num_ids > at_most // 2:
                self.first += 1
        return tuple(token for turn in self.turns[self.first :] for token in turn.ids)

    def forget_unless(self, readable: Collection[str]) -> None:
        """Where the model still sees a turn about a base that is not `readable`, it sees no turn of before any more.

        Later turns may repeat what that one said; the questions are the person's own, and are still searched with.
        """
        if any(turn.kb and turn.kb not in readable for turn in self.turns[self.first :]):
            self.first = len(self.turns)

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)

    @property
    def _num_ids(self) -> int:
        return sum(len(turn.ids) for turn in self.turns[self.first :])
