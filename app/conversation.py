"""Decides what a conversation keeps between questions: raw ids for the prompt, questions to search with, what was read.

A conversation only grows at its end, so that every turn finds the turns before it in the engine's cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SEARCHED_BACK = 2


@dataclass(frozen=True)
class Turn:
    """A question that was put to the model.

    Attributes:
        ids: The turn's tail and the model's raw answer as `engine.prompt` closes them; of a stopped answer, what came.
        doc_id, sections: What was read, sections by number, ascending.
    """

    question: str
    ids: tuple[int, ...]
    doc_id: str
    sections: tuple[int, ...]


@dataclass
class Conversation:
    """The turns of one chat, oldest first. Holds nothing of the engine's: it survives a restart of it."""

    turns: list[Turn] = field(default_factory=list)

    @property
    def last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    def earlier_questions(self) -> tuple[str, ...]:
        """The latest questions, oldest first: what "and a service?" is searched with."""
        return tuple(turn.question for turn in self.turns[-SEARCHED_BACK:])

    def history_ids(self, at_most: int) -> tuple[int, ...]:
        """The newest whole turns that fit into `at_most` tokens, oldest first."""
        kept: list[tuple[int, ...]] = []
        room = at_most
        for turn in reversed(self.turns):
            if len(turn.ids) > room:
                break
            kept.append(turn.ids)
            room -= len(turn.ids)
        return tuple(token for ids in reversed(kept) for token in ids)

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
