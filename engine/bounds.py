"""Decides whose handle goes when a server keeps too many: the expired first, then the least recently used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.base import EngineError
from engine.shelf import BYTES_PER_TOKEN, Rows


@dataclass(frozen=True)
class Limits:
    """What a server keeps of prefixes.

    Attributes:
        max_bytes: Of ids on disk.
        max_held_bytes: Of ids in memory; what is not held is read from disk at its next use.
    """

    max_handles: int = 10_000
    max_bytes: int = 4 * 2**30
    max_held_bytes: int = 512 * 2**20


def make_room(rows: Rows, num_tokens: int, limits: Limits, now: float, is_in_use: Callable[[str], bool]) -> list[str]:
    """Deletes until one more prefix of `num_tokens` is within the limits; returns the handles that went.

    None that is in use goes, and none that is pinned and lives.

    Raises:
        EngineError: `registry_full`.
    """
    num_handles, num_kept_tokens = rows.total()
    max_tokens = limits.max_bytes // BYTES_PER_TOKEN
    gone: list[str] = []
    candidates = None
    while num_handles >= limits.max_handles or num_kept_tokens + num_tokens > max_tokens:
        if candidates is None:
            candidates = iter(sorted(rows.all(), key=lambda facts: facts.is_alive(now)))
        for facts in candidates:
            if not is_in_use(facts.id) and not (facts.pinned and facts.is_alive(now)):
                break
        else:
            raise EngineError(
                "registry_full",
                f"The server keeps {limits.max_handles:,} prefixes with {max_tokens:,} tokens at most, and of the "
                f"{num_handles:,} that it has none can make room (pinned or in use); free or unpin some.",
            )
        rows.delete(facts.id)
        gone.append(facts.id)
        num_handles -= 1
        num_kept_tokens -= facts.num_tokens
    return gone
