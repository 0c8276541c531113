"""Decides whose handle goes when a server keeps too many: the expired first, then the least recently used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.base import EngineError
from engine.shelf import BYTES_PER_TOKEN, Facts, Rows


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
    too_many = num_handles + 1 - limits.max_handles
    too_long = num_kept_tokens + num_tokens - max_tokens
    if too_many <= 0 and too_long <= 0:
        return []
    # Chosen first and deleted then: what is refused must not have cost anything, and no transaction brings files back.
    chosen: list[Facts] = []
    for facts in sorted(rows.all(), key=lambda facts: facts.is_alive(now)):
        if is_in_use(facts.id) or (facts.pinned and facts.is_alive(now)):
            continue
        chosen.append(facts)
        too_many -= 1
        too_long -= facts.num_tokens
        if too_many <= 0 and too_long <= 0:
            break
    else:
        raise EngineError(
            "registry_full",
            f"The server keeps {limits.max_handles:,} prefixes with {max_tokens:,} tokens at most, and of the "
            f"{num_handles:,} that it has too few can make room (pinned or in use); free or unpin some.",
        )
    for facts in chosen:
        rows.delete(facts.id)
    return [facts.id for facts in chosen]
