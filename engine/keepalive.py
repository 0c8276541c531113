"""Decides when a pinned prefix is touched, so that the pool's least recently used end never reaches it.

vLLM pins nothing: it forgets the block that was freed longest ago. A touch is a request of one token that holds the
prefix for a moment; freed again its blocks are the youngest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.registered import Registered
from engine.room import Room


class KeepAlive:
    """Counts how far the pool has turned since each pinned prefix was used.

    Args:
        pinned: The pinned prefixes now.
        hot_tokens: Tokens in use now.
        stored_blocks: Blocks that were stored since the start; None where nobody counts them: then nothing is touched.
    """

    def __init__(
        self,
        room: Room,
        pinned: Callable[[], Iterable[Registered]],
        hot_tokens: Callable[[], int],
        stored_blocks: Callable[[], int] | None,
    ) -> None:
        self._room = room
        self._pinned = pinned
        self._hot_tokens = hot_tokens
        self._stored_blocks = stored_blocks
        self._due_at: dict[tuple[str, str | None], int] = {}

    def used(self, registered: Registered) -> None:
        """Its blocks have just been freed."""
        if self._stored_blocks is not None and _key(registered) in self._due_at:
            self._due_at[_key(registered)] = self._next_due(list(self._pinned()), self._stored_blocks())

    def due(self) -> Registered | None:
        """A pinned prefix that has to be touched now; one that is seen for the first time counts from here."""
        if self._stored_blocks is None or not (pinned := list(self._pinned())):
            return None
        stored = self._stored_blocks()
        next_due = self._next_due(pinned, stored)
        self._due_at = {_key(one): self._due_at.get(_key(one), next_due) for one in pinned}
        first = min(pinned, key=lambda one: self._due_at[_key(one)])
        return first if stored >= self._due_at[_key(first)] else None

    def _next_due(self, pinned: list[Registered], stored: int) -> int:
        """The stored blocks at which a prefix that is freed now is to be touched.

        What goes before it is free and unpinned now; what is in use will be freed later and so stand behind it.
        """
        unpinned_tokens = self._room.pool_tokens - sum(map(self._room.of_prefix, pinned))
        before_tokens = max(unpinned_tokens - self._hot_tokens(), unpinned_tokens // 16, 0)
        # Half of it: questions may take as much as that before the touch is through.
        return stored + max(before_tokens // (2 * self._room.block_size), 1)


def _key(registered: Registered) -> tuple[str, str | None]:
    return registered.id, registered.salt
