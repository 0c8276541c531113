"""Decides what the routes need of the engine's own side: each part's face, whoever stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from engine.bridge import Bridge
from engine.detokenize import Vocabulary
from engine.prefixes import Registry
from engine.registered import Registered
from engine.traces import Traces, off
from engine.view import Features

WaitedFor = Literal["read", "room"] | None
Cause = Literal["registered", "selected", "resumed", "restarted"]


class Prediction(Protocol):
    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that the lookup will find; None where that is not known."""
        ...


class Residency(Protocol):
    """What vLLM's cache holds, from its own events."""

    predictions: int
    wrong_predictions: int
    uncertain_predictions: int

    @property
    def resident_blocks(self) -> int | None: ...

    @property
    def evicted_blocks(self) -> int: ...

    @property
    def why_unknown(self) -> str | None:
        """None while it is known, else the reason in one sentence."""
        ...

    def resident_tokens(self, prefix: Registered) -> int | None: ...

    def predict(self, prefix: Registered, tail_ids: Sequence[int]) -> Any: ...

    def settle(self, prediction: Any, reported: int | None, output_ids: Sequence[int] = ()) -> None: ...

    async def caught_up(self) -> bool:
        """Waits a moment at most for the blocks of questions that have ended."""
        ...

    async def read_is_in(self, prefix: Registered) -> bool:
        """Waits a moment at most for the blocks of a prefix that has just been read to its end."""
        ...

    async def confirm(self) -> None:
        """Waits until all that the cache did by now is known; some 100 ms where it idles."""
        ...


class Place(Protocol):
    """A question's right to run."""

    @property
    def waited_for(self) -> WaitedFor: ...

    def first_token(self) -> None:
        """The prefix is computed now."""
        ...


class Warming(Protocol):
    """A prefix that is read ahead of its questions."""

    @property
    def progress(self) -> float:
        """0 to 1."""
        ...

    @property
    def has_ended(self) -> bool: ...

    async def wait(self) -> Any:
        """Returns at its end; raises EngineError if it failed."""
        ...


class Queued(Protocol):
    """Who waits at the door at one moment, and what it did since the start."""

    @property
    def waiting_read(self) -> int: ...

    @property
    def waiting_room(self) -> int: ...

    @property
    def reading(self) -> str | None: ...

    @property
    def hot_tokens(self) -> int: ...

    @property
    def idle_pinned_tokens(self) -> int: ...

    @property
    def reads(self) -> int: ...

    @property
    def joined(self) -> int: ...


class Door(Protocol):
    """Who may go to the engine now."""

    def enter(
        self, registered: Registered, num_tail_tokens: int, request_id: str, num_answer_tokens: int = ...
    ) -> AbstractAsyncContextManager[Place]: ...

    def warm(self, registered: Registered, cause: Cause) -> Warming: ...

    def cancel(self, prefix_id: str) -> bool: ...

    def keep_alive(self) -> None: ...

    def snapshot(self) -> Queued: ...


class Observer(Protocol):
    """What counts questions for /metrics (`engine.metrics.Metrics`)."""

    def observe(self, first: Any) -> None: ...

    @property
    def first_tokens(self) -> Any: ...


@dataclass
class Parts:
    """One server's parts.

    Attributes:
        vocabulary: Made at the first question that asks for words; raises EngineError `no_tokenizer`.
        pinned: The pinned prefixes, for the door; `handles` keeps it up to date.
        metrics: None where nothing is counted.
        traces: Where the spans of questions begin; off unless vLLM itself traces.
    """

    registry: Registry
    bridge: Bridge
    residency: Residency
    door: Door
    vocabulary: Callable[[], Vocabulary]
    features: Features
    instance: str
    pinned: list[Registered] = field(default_factory=list)
    metrics: Observer | None = None
    traces: Traces = field(default_factory=off)
