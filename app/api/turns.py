"""Decides how the turns that a program sends become a conversation: the raw ids kept of them, or their words anew.

Programs send the whole conversation each time. What was answered here is found again by its words, so that the prompt
goes on id by id and is warm; an answer that came from elsewhere, or was changed, is encoded.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from app.conversation import Conversation, Turn
from app.reader import Reader

# Some kilobytes each: raw ids of at most what the model holds.
MOST_KEPT = 1_000


@dataclass(frozen=True)
class Said:
    """A question and its answer, in words."""

    question: str
    answer: str


class Turns:
    """The conversations that went on lately, by what was said in them. For one event loop."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Conversation] = OrderedDict()

    def find(self, person: str, kb: str, said: Sequence[Said]) -> Conversation | None:
        """A copy to go on with; None where it is not kept. Nobody finds another person's."""
        kept = self._kept.get(_key(person, kb, said)) if said else Conversation()
        return None if kept is None else Conversation(list(kept.turns), kept.first)

    def keep(self, person: str, kb: str, said: Sequence[Said], conversation: Conversation) -> None:
        key = _key(person, kb, said)
        self._kept[key] = conversation
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


def from_words(reader: Reader, said: Sequence[Said]) -> Conversation:
    """The conversation as its words are encoded. Blocking: call it in a thread."""
    layout = reader.layout
    bare = layout.prefix(())
    made = Conversation()
    for turn in said:
        ids = layout.history_after(layout.ask(bare, turn.question), layout.tokenizer.encode_text(turn.answer))
        made.add(Turn(turn.question, ids, "", ()))
    return made


def _key(person: str, kb: str, said: Sequence[Said]) -> str:
    told = json.dumps([person, kb, [[turn.question.strip(), turn.answer.strip()] for turn in said]])
    return hashlib.sha256(told.encode()).hexdigest()
