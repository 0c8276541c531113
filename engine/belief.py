"""Decides how much of a prefix is taken for cached: what vLLM told, and what was read here a moment ago.

vLLM's events come a little after the answers that they belong to, and a server may have none at all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from engine.registered import Registered

EVENTS_LAG_S = 0.25


@dataclass(frozen=True)
class _Seen:
    num_tokens: int
    at_s: float


class Belief:
    """What is cached, as far as one can tell.

    Args:
        resident_tokens: What vLLM's events say; None where they say nothing.
        pool_tokens: Without events, what was used longest ago is taken for gone when the rest fills the pool.
        block_size: Tokens in a block; only whole ones are cached.
        clock: Seconds.
    """

    def __init__(
        self,
        resident_tokens: Callable[[Registered], int | None],
        *,
        pool_tokens: int,
        block_size: int,
        clock: Callable[[], float],
    ) -> None:
        self._resident_tokens = resident_tokens
        self._pool_tokens = pool_tokens
        self._block_size = block_size
        self._clock = clock
        self._seen: OrderedDict[tuple[str, str | None], _Seen] = OrderedDict()
        self._num_seen_tokens = 0

    def whole(self, registered: Registered) -> int:
        """Tokens in the prefix's whole blocks: all that can be cached of it."""
        return registered.num_tokens // self._block_size * self._block_size

    def cached(self, registered: Registered) -> int:
        """Tokens from the start that a question would find cached now."""
        told = self._resident_tokens(registered)
        seen = self._seen.get(_key(registered))
        if told is None:
            return seen.num_tokens if seen else 0
        told = min(told, self.whole(registered))
        if seen and self._clock() < seen.at_s + EVENTS_LAG_S:
            return max(told, seen.num_tokens)
        return told

    def saw(self, registered: Registered, num_tokens: int) -> None:
        """Its first `num_tokens` have just been computed or found."""
        self._drop(_key(registered))
        self._seen[_key(registered)] = _Seen(num_tokens, self._clock())
        self._num_seen_tokens += num_tokens
        while self._num_seen_tokens > self._pool_tokens:
            self._drop(next(iter(self._seen)))

    def _drop(self, key: tuple[str, str | None]) -> None:
        if (seen := self._seen.pop(key, None)) is not None:
            self._num_seen_tokens -= seen.num_tokens


def _key(registered: Registered) -> tuple[str, str | None]:
    # A prefix that was freed and comes back has another salt: nothing of its earlier life is found again.
    return registered.id, registered.salt
