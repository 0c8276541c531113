"""Decides what the fake remembers of prefixes: how long, for whom, which ones it holds, which salt they have by now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.base import EngineError, Handle, Prefix
from engine.blocks import BlockCache, Run
from engine.registered import refuse_control_characters

PIN_SHARE = 0.5


@dataclass(eq=False)
class _Kept:
    prefix: Prefix
    used_at: float
    ttl_s: float | None = None
    sessions: set[str] = field(default_factory=set)
    by_sessions_only: bool = False
    held: Run | None = None


class FakeHandles:
    """Named prefixes over one block pool.

    Args:
        clock: Gives the time in seconds; a prefix with a TTL goes when it was not used for so long.
    """

    def __init__(self, cache: BlockCache, max_model_len: int, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._max_model_len = max_model_len
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._generations: dict[str, int] = {}

    def salt_of(self, prefix: Prefix) -> str | None:
        """As the engine's own side makes it: the namespace's, and one of its own for a prefix that was freed."""
        generation = self._generations.get(prefix.id, 0)
        return f"{prefix.namespace}\0{generation}" if generation else prefix.namespace or None

    def keep(self, prefix: Prefix, ttl_s: float | None, pin: bool, session: str | None) -> None:
        """Registers, or changes what is given.

        Raises:
            EngineError: `bad_request`, `does_not_fit`, `pins_full`.
        """
        self._expire()
        refuse_control_characters(prefix.namespace, session or "")
        if prefix.num_tokens >= self._max_model_len:
            raise EngineError(
                "does_not_fit",
                f"The prefix has {prefix.num_tokens} tokens and the engine reads at most {self._max_model_len - 1}.",
            )
        kept = self._kept.get(prefix.id)
        if pin and (kept is None or kept.held is None):
            self._refuse_too_many_pins(prefix)
        if kept is None:
            kept = self._kept[prefix.id] = _Kept(prefix, self._clock(), by_sessions_only=session is not None)
        kept.ttl_s = ttl_s if ttl_s is not None else kept.ttl_s
        kept.by_sessions_only = kept.by_sessions_only and session is not None
        kept.used_at = self._clock()
        if session is not None:
            kept.sessions.add(session)

    def hold(self, prefix: Prefix) -> None:
        """Keeps the blocks of a prefix that has been read: a pin. Nothing where it was freed meanwhile.

        Raises:
            NoRoomError: Its blocks have gone, and there is no room to have them again now.
        """
        kept = self._kept.get(prefix.id)
        if kept is not None and kept.held is None:
            run = self._cache.begin(prefix.token_ids, self.salt_of(prefix))
            self._cache.compute(run)
            kept.held = run

    def touch(self, prefix: Prefix) -> None:
        """A question uses it; an unknown one becomes known.

        Raises:
            EngineError: `bad_request`.
        """
        self._expire()
        refuse_control_characters(prefix.namespace)
        kept = self._kept.setdefault(prefix.id, _Kept(prefix, self._clock()))
        kept.used_at = self._clock()

    def free(self, prefix: Prefix) -> bool:
        """Whether it was known. What it had cached is not found again."""
        kept = self._drop(prefix.id)
        if kept is not None:
            self._generations[prefix.id] = self._generations.get(prefix.id, 0) + 1
        return kept is not None

    def release(self, session: str) -> None:
        """Lets go of what came by sessions only, with the last of them; a pin keeps it.

        What is cached stays for whoever asks about the same text next.
        """
        for kept in list(self._kept.values()):
            kept.sessions.discard(session)
            if kept.by_sessions_only and not kept.sessions and kept.held is None:
                self._drop(kept.prefix.id)

    def handle(self, prefix: Prefix) -> Handle:
        """What the pool holds of it, known or not."""
        resident = self._cache.count_cached((*prefix.token_ids, 0), self.salt_of(prefix))
        whole = prefix.num_tokens // self._cache.block_size * self._cache.block_size
        return Handle(
            prefix.id, prefix.num_tokens, resident, "warm" if resident == whole else "partial" if resident else "cold"
        )

    def all(self) -> tuple[Handle, ...]:
        """The known ones, the oldest first."""
        self._expire()
        return tuple(self.handle(kept.prefix) for kept in self._kept.values())

    def _refuse_too_many_pins(self, prefix: Prefix) -> None:
        pool = (self._cache.num_blocks - 1) * self._cache.block_size
        pinned = sum(kept.prefix.num_tokens for kept in self._kept.values() if kept.held is not None)
        most = min(int(pool * PIN_SHARE), pool - self._max_model_len)
        if pinned + prefix.num_tokens > most:
            raise EngineError(
                "pins_full",
                f"{pinned:,} tokens are pinned and {most:,} of {pool:,} may be: {prefix.num_tokens:,} more do not fit; "
                "free a pinned prefix first.",
            )

    def _expire(self) -> None:
        now = self._clock()
        for kept in list(self._kept.values()):
            if kept.ttl_s is not None and now - kept.used_at >= kept.ttl_s:
                self._drop(kept.prefix.id)

    def _drop(self, handle: str) -> _Kept | None:
        kept = self._kept.pop(handle, None)
        if kept is not None and kept.held is not None:
            self._cache.free(kept.held)
            kept.held = None
        return kept
