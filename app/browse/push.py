"""Decides what reading one more document would push out of the engine's cache: what was used longest ago, first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.view import CacheView, PrefixView


@dataclass(frozen=True)
class Push:
    """What it would cost. An estimate: questions in between change the order.

    Attributes:
        fits: False where pinned and running ones leave no room for it, whatever goes.
        tokens: So many have to go.
        prefixes: Those that would lose something, in the order in which they do.
    """

    fits: bool
    tokens: int
    prefixes: tuple[PrefixView, ...] = ()


def pushed_out(view: CacheView, num_tokens: int) -> Push | None:
    """What `num_tokens` more would push out; None where the engine does not tell what it holds."""
    if view.resident_tokens is None:
        return None
    if num_tokens > view.pool_tokens - view.pinned_tokens:
        return Push(False, 0)
    missing = max(0, num_tokens - (view.pool_tokens - view.resident_tokens))
    going: list[PrefixView] = []
    left = missing
    for prefix in sorted(view.prefixes, key=lambda prefix: prefix.last_used or 0.0):
        if left <= 0:
            break
        if prefix.resident_tokens and not prefix.pinned:
            going.append(prefix)
            left -= prefix.resident_tokens
    return Push(True, missing, tuple(going))
