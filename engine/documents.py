"""Decides what is in use of the pool: the prefixes that somebody wants something of, and the room they take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from engine.belief import Belief
from engine.pace import Pace
from engine.registered import Registered
from engine.room import Room
from engine.warm import Reading, Warming

WaitsFor = Literal["read", "room"]


@dataclass(eq=False)
class Question:
    """Somebody who asks, from arrival to leaving.

    Attributes:
        request_id: Its name in the engine; here for whoever looks at a door that is stuck.
        num_tokens: Room for its tail and its answer.
        go: Set while it waits: done as soon as it may go.
        cause: What it waits for now.
        waited_for: What it waited for at all: a read, or only room.
    """

    document: Document
    request_id: str
    num_tokens: int
    number: int
    arrived_s: float
    go: asyncio.Future[None] | None = None
    cause: WaitsFor | None = None
    waited_for: WaitsFor | None = None
    is_placed: bool = False
    has_token: bool = False

    @property
    def is_leaving(self) -> bool:
        """Cancelled while it waited; it has not come to say so yet."""
        return self.go is not None and self.go.done()

    def wait_for(self, cause: WaitsFor) -> None:
        self.cause = cause
        if cause == "read" or self.waited_for is None:
            self.waited_for = cause


@dataclass(eq=False)
class Document:
    """A prefix while anybody wants something of it.

    Attributes:
        num_tokens: Room for its whole blocks.
        number: Order of arrival among documents and questions.
        waiting, placed: Questions that may not go yet, and those that went.
        leader: The question that computes the rest of the prefix itself; the others wait for its first token.
        grant: For whom it is being read and has room: for questions until it is read, in the background for one step.
        num_reserved_tokens: Room that the grant keeps for the first question.
        num_overtaken: Prefixes that came later and were read first.
        reads_itself: It did not stay while it was read in steps; a question computes it in one piece.
    """

    registered: Registered
    num_tokens: int
    number: int
    waiting: list[Question] = field(default_factory=list)
    placed: set[Question] = field(default_factory=set)
    leader: Question | None = None
    warming: Warming | None = None
    reading: Reading | None = None
    grant: Literal["questions", "background"] | None = None
    num_reserved_tokens: int = 0
    num_overtaken: int = 0
    reads_itself: bool = False

    @property
    def is_wanted(self) -> bool:
        return bool(self.waiting) or self.warming is not None

    @property
    def is_hot(self) -> bool:
        return bool(self.placed) or self.grant is not None

    @property
    def hot_tokens(self) -> int:
        """What it and its running questions may take of the pool."""
        if not self.is_hot:
            return 0
        return self.num_tokens + self.num_reserved_tokens + sum(question.num_tokens for question in self.placed)

    @property
    def is_held(self) -> bool:
        """A question past its first token holds all blocks: nothing can push them out."""
        return any(question.has_token for question in self.placed)

    def grant_room(self) -> None:
        if self.grant is None:
            self.grant = "questions" if self.waiting else "background"
            self.num_reserved_tokens = self.waiting[0].num_tokens if self.waiting else 0

    def take_room_back(self) -> None:
        self.grant = None
        self.num_reserved_tokens = 0

    def end_warming(self, error: Exception | None = None) -> None:
        """It is warm, or failed."""
        if self.warming:
            self.warming.end("failed" if error else "warm", error)
            self.warming = None
        self.reading = None


class Documents:
    """All of them, and the questions that can be asked about each.

    Args:
        pinned: The pinned prefixes now; their room is left to them while nobody uses them.
    """

    def __init__(self, pace: Pace, belief: Belief, room: Room, pinned: Callable[[], Iterable[Registered]]) -> None:
        self._pace = pace
        self._belief = belief
        self._room = room
        self._pinned = pinned
        self._all: dict[tuple[str, str | None], Document] = {}

    def __iter__(self) -> Iterator[Document]:
        return iter(list(self._all.values()))

    def find(self, registered: Registered) -> Document | None:
        # A prefix that was freed and comes back has another salt, and so a life of its own.
        return self._all.get((registered.id, registered.salt))

    def want(self, registered: Registered, number: int) -> Document:
        """The one there is, or a new one with this number."""
        key = (registered.id, registered.salt)
        if key not in self._all:
            self._all[key] = Document(registered, self._room.of_prefix(registered), number)
        return self._all[key]

    def drop(self, document: Document) -> None:
        if self.find(document.registered) is document:
            del self._all[document.registered.id, document.registered.salt]

    @property
    def hot_tokens(self) -> int:
        return sum(document.hot_tokens for document in self._all.values())

    def fits(self, document: Document, num_own_tokens: int, before: Question | None = None) -> bool:
        """Whether there is room for a question of this prefix, or for reading it; what runs alone always fits.

        Args:
            before: A question on another prefix that has to find its room too.
        """
        own = num_own_tokens + self._new_tokens(document)
        if before is not None and before.document is not document:
            own += before.num_tokens + self._new_tokens(before.document)
        elif not self.hot_tokens:
            return True
        return self.hot_tokens + own + self.idle_pinned_tokens(document) <= self._room.share_tokens

    def missing(self, document: Document) -> int:
        """Tokens of its whole blocks that are not cached."""
        if document.is_held:
            return 0
        return max(document.num_tokens - self._belief.cached(document.registered), 0)

    def is_small(self, document: Document, num_missing: int) -> bool:
        """Less than a step: a question computes it as fast as the reader would."""
        position = document.num_tokens - num_missing
        return document.reads_itself or num_missing <= self._pace.step_tokens(position)

    def left_s(self, document: Document) -> float:
        """Seconds that reading the rest takes."""
        if document.reading:
            return document.reading.left_s
        return self._pace.seconds(document.num_tokens - self.missing(document), document.num_tokens)

    def progress(self, document: Document) -> float:
        """0 to 1."""
        if document.reading:
            return document.reading.progress
        return 1 - self.missing(document) / document.num_tokens if document.num_tokens else 1.0

    @staticmethod
    def _new_tokens(document: Document) -> int:
        return 0 if document.is_hot else document.num_tokens

    def idle_pinned_tokens(self, but: Document | None = None) -> int:
        """Of pinned prefixes that nobody uses now, `but` this one."""
        kept = 0
        for registered in self._pinned():
            other = self.find(registered)
            if (other is None or other is not but) and not (other and other.is_hot):
                kept += self._room.of_prefix(registered)
        return kept
