"""Decides what a batch knows of the engine's cache: how much it holds, and of which prefixes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base import EngineError

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.reader import Reader


# What a question takes of the pool beside what it is about and its answer.
QUESTION_TOKENS = 256
# A prefix of which less is held counts as one that has to be read: all begin with the same instructions.
HELD_SHARE = 0.5


@dataclass(frozen=True)
class Pool:
    """What the engine's cache holds, as far as it tells.

    Attributes:
        num_tokens: Of the whole pool.
        resident: Tokens held of each prefix it knows, by handle; None where it does not tell. Blocking.
        asked: Handles of the prefixes that had questions before.
    """

    num_tokens: int
    block_size: int
    resident: Callable[[], Mapping[str, int] | None]
    asked: frozenset[str] = frozenset()

    def room_for(self, at_once: int, prefix_tokens: int, answer_tokens: int) -> int:
        """How many answers find room beside what they are about, `at_once` of them at most and one at least."""
        return max(1, min(at_once, (self.num_tokens - prefix_tokens) // (QUESTION_TOKENS + answer_tokens)))

    def whole(self, num_tokens: int) -> int:
        """Tokens in a prefix's whole blocks: all that can be held of it."""
        return num_tokens // self.block_size * self.block_size

    def is_mostly_held(self, num_tokens: int, resident_tokens: int) -> bool:
        """Whether so much of a prefix is that it does not count as one that has to be read."""
        return resident_tokens >= HELD_SHARE * num_tokens

    def is_warm(self, num_tokens: int, resident_tokens: int) -> bool:
        """Whether all whole blocks of a prefix are held; each question computes what is left of the last one."""
        return num_tokens - resident_tokens < self.block_size


def pool_of(assistant: Assistant, reader: Reader) -> Pool:
    """The pool of the engine in use; where it does not tell, it holds one prompt at least. Blocking."""

    def resident() -> Mapping[str, int] | None:
        view = None
        with suppress(EngineError):  # whoever asks next says what is wrong
            view = assistant.cache()
        if view is None or view.resident_tokens is None:
            return None
        return {one.id: one.resident_tokens for one in view.prefixes if one.resident_tokens is not None}

    view = None
    with suppress(EngineError):
        view = assistant.cache()
    if view is not None:
        asked = frozenset(one.id for one in view.prefixes if one.hits)
        return Pool(view.pool_tokens, view.block_size, resident, asked)
    tokens = assistant.engine_status().cache_tokens or reader.engine.max_model_len
    return Pool(tokens, assistant.settings.engine_profile.block_size, lambda: None)
