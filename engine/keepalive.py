"""Decides when a pinned prefix is touched, so that the pool's least recently used end never reaches it.

vLLM pins nothing: it forgets the block that was freed longest ago. A touch is a request of one token that holds the
prefix for a moment; freed again its blocks are the youngest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.prefixes import Registered
from engine.room import Room


class KeepAlive:
    """Counts how far the pool has turned since each pinned prefix was used.

    Args:
        pinned: The pinned prefixes now.
        stored_blocks: Blocks that were stored since the start; None where nobody counts them: then nothing is touched.
    """

    def __init__(
        self, room: Room, pinned: Callable[[], Iterable[Registered]], stored_blocks: Callable[[], int] | None
    ) -> None:
        self._room = room
        self._pinned = pinned
        self._stored_blocks = stored_blocks
        self._stored_at: dict[Registered, int] = {}

    def used(self, registered: Registered) -> None:
        """Its blocks have just been freed."""
        if self._stored_blocks is not None and registered in self._stored_at:
            self._stored_at[registered] = self._stored_blocks()

    def due(self) -> Registered | None:
        """A pinned prefix that has to be touched now; one that is seen for the first time counts from here."""
        if self._stored_blocks is None:
            return None
        pinned = list(self._pinned())
        stored = self._stored_blocks()
        self._stored_at = {registered: self._stored_at.get(registered, stored) for registered in pinned}
        if not pinned:
            return None
        oldest = min(pinned, key=self._stored_at.__getitem__)
        unpinned_tokens = max(self._room.pool_tokens - sum(map(self._room.of_prefix, pinned)), 0)
        # Half of it: a question may take as much as that before the touch is through.
        due_blocks = max(unpinned_tokens // (2 * self._room.block_size), 1)
        return oldest if stored - self._stored_at[oldest] >= due_blocks else None
