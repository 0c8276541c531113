"""Decides what the engine's own side tells about its cache: the answer of GET /v1/cache, the same on both ends.

The plugin fills it, `metrics` counts it, `targets` judges it, the terminal draws it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar

from engine.base import EngineError

State = Literal["cold", "warming", "warm", "partial"]
STATES: tuple[State, ...] = ("cold", "warming", "warm", "partial")

T = TypeVar("T")


@dataclass(frozen=True)
class PrefixView:
    """One registered prefix.

    Attributes:
        name: Its base, document and section(s), as the caller named it.
        resident_tokens: Of its tokens, how many the engine holds from the start on; None where it does not tell.
        expires_at, last_used, created: Unix times; None: never.
        hits: Questions that were asked about it.
        sessions: The names of those that hold it.
    """

    id: str
    namespace: str
    name: str
    num_tokens: int
    resident_tokens: int | None
    state: State
    pinned: bool = False
    expires_at: float | None = None
    last_used: float | None = None
    hits: int = 0
    sessions: tuple[str, ...] = ()
    created: float | None = None


@dataclass(frozen=True)
class Queue:
    """Questions that wait at the door, by what they wait for.

    Attributes:
        read: For their prefix to be read.
        room: For a prefix in use to leave the pool.
    """

    read: int = 0
    room: int = 0


@dataclass(frozen=True)
class Features:
    """What runs inside the engine: the memo of prefixes, shared-prefix attention, the cache's own events."""

    core: bool = False
    attention: bool = False
    events: bool = False


@dataclass(frozen=True)
class FirstTokens:
    """How long the last questions waited for their first token, from their arrival in the server.

    Attributes:
        questions: All since the start that got one.
        warm_median_ms, cold_median_ms: Of the last few hundred of each kind; None before the first.
    """

    questions: int = 0
    warm_median_ms: float | None = None
    cold_median_ms: float | None = None


@dataclass(frozen=True)
class CacheView:
    """The cache at one moment; counts are since the engine's start.

    Attributes:
        pool_tokens: What the pool holds at most.
        resident_tokens: Tokens in cached blocks, answers' too; None where the engine does not tell.
        pinned_tokens: Of pinned prefixes.
        hot_tokens: Of prefixes that are in use now and not pinned: with the pinned ones, what may not be evicted.
        queries_tokens, hits_tokens: Prompt tokens looked up, and of these found.
        evicted_blocks: None where the engine does not tell.
        predictions: Of cached tokens, those that could be checked; `wrong_predictions` of them were wrong.
        uncertain_predictions: Beside these: other requests came between, so that neither can be said.
        reads: Prefixes read ahead of their questions.
        joined_questions: Questions that waited for a read that ran already, instead of reading again.
        instance: Another one after each start.
    """

    pool_tokens: int
    block_size: int
    instance: str
    resident_tokens: int | None = None
    pinned_tokens: int = 0
    hot_tokens: int = 0
    queries_tokens: int = 0
    hits_tokens: int = 0
    evicted_blocks: int | None = None
    predictions: int = 0
    wrong_predictions: int = 0
    uncertain_predictions: int = 0
    reads: int = 0
    joined_questions: int = 0
    live_streams: int = 0
    queue: Queue = field(default_factory=Queue)
    features: Features = field(default_factory=Features)
    first_token: FirstTokens = field(default_factory=FirstTokens)
    prefixes: tuple[PrefixView, ...] = ()

    @property
    def hit_rate(self) -> float | None:
        """0 to 1; None before the first question."""
        return self.hits_tokens / self.queries_tokens if self.queries_tokens else None

    @property
    def held_share(self) -> float:
        """Share of the pool that may not be evicted: pinned or in use, 0 to 1 and beyond."""
        return (self.pinned_tokens + self.hot_tokens) / self.pool_tokens if self.pool_tokens else 0.0

    def num_in(self, state: State) -> int:
        return sum(prefix.state == state for prefix in self.prefixes)

    def to_json(self) -> dict[str, Any]:
        """What GET /v1/cache answers."""
        return dataclasses.asdict(self) | {"hit_rate": self.hit_rate}

    @classmethod
    def from_json(cls, answer: object) -> CacheView:
        """Reads such an answer; fields of a newer server are passed over, missing ones keep their defaults.

        Raises:
            EngineError: `engine_failed`, naming the field.
        """
        return _read(cls, answer, "the answer")


def _read(kind: type[T], value: object, where: str) -> T:
    if not isinstance(value, Mapping):
        raise _refused(where, "an object", value)
    assert dataclasses.is_dataclass(kind)
    hints = _hints(kind)
    given = {name: _as(hint, value[name], name) for name, hint in hints.items() if name in value}
    for one in dataclasses.fields(kind):
        required = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        if required and one.name not in given:
            raise _refused(one.name, "given", None)
    return kind(**given)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _as(hint: Any, value: object, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:  # `X | None`, the only kind there is here
        return None if value is None else _as(args[0], value, where)
    if origin is Literal:
        if value not in args:
            raise _refused(where, f"one of {', '.join(args)}", value)
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _refused(where, "a list", value)
        return tuple(_as(args[0], item, where) for item in value)
    if dataclasses.is_dataclass(hint):
        return _read(typing.cast("type[Any]", hint), value, where)
    # In JSON a whole number is a float too, and a bool is no number.
    fits = isinstance(value, int | float if hint is float else hint) and (hint is bool or not isinstance(value, bool))
    if not fits:
        raise _refused(where, f"a value of type {hint.__name__}", value)
    return value


def _refused(where: str, wanted: str, value: object) -> EngineError:
    return EngineError(
        "engine_failed",
        f"The engine's account of its cache does not read: {where} has to be {wanted} and is {str(value)[:40]!r}; "
        "run the same version of readonce on both sides.",
    )
