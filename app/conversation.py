"""Decides what a conversation keeps between questions: raw ids for the prompt, questions to search with, what was read.

A conversation only grows at its end, or is cut back to go on from an earlier turn, so that every turn finds the turns
before it in the engine's cache.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from app.question import leans

SEARCHED_BACK = 6


@dataclass(frozen=True)
class Turn:
    """A question that was put to the model.

    Attributes:
        ids: The turn's tail and the model's raw answer as `engine.prompt` closes them; of a stopped answer, what came.
        doc_id, sections: What was read, sections by number, ascending.
        kb: The base that it lies in; empty where that is not known.
        answer_id: The message that shows its answer; empty where none does.
        first: From which turn on, counted from 0, the model sees the conversation once this one is there.
    """

    question: str
    ids: tuple[int, ...]
    doc_id: str
    sections: tuple[int, ...]
    kb: str = ""
    answer_id: str = ""
    first: int = 0


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
        self.turns.append(replace(turn, first=self.first))

    def show_last(self, answer_id: str) -> None:
        """The last turn's answer stands in this message."""
        self.turns[-1] = replace(self.turns[-1], answer_id=answer_id)

    def cut_back(self, answer_ids: Collection[str]) -> None:
        """Takes out the first turn whose answer is one of these, and all after it.

        The next question then begins with the very ids with which that turn began, which the engine has cached.
        """
        at = next((number for number, turn in enumerate(self.turns) if turn.answer_id in answer_ids), len(self.turns))
        if at < len(self.turns):
            del self.turns[at:]
            self.first = self.turns[-1].first if self.turns else 0

    def tried(self) -> Conversation:
        """The same conversation to go on with for a try: what is added to it is not added here."""
        return Conversation(list(self.turns), self.first)

    def take_over(self, tried: Conversation) -> None:
        """Goes on where `tried`, which came from `tried()`, has got to."""
        self.turns, self.first = tried.turns, tried.first

    @property
    def _num_ids(self) -> int:
        return sum(len(turn.ids) for turn in self.turns[self.first :])
