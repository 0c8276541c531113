"""A cache at work, for the tests of what shows it: five documents, one of them pinned, one being read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.view import CacheView, Features, FirstTokens, PrefixView, Queue

PREFIXES = (
    PrefixView("a1", "default", "default/lockers.pdf/1", 4000, 4000, "warm", pinned=True, hits=12, last_used=90.0),
    PrefixView("b2", "default", "default/harbour.pdf/1", 2000, 1984, "warm", hits=5, sessions=("chat-7",)),
    PrefixView("b3", "default", "default/harbour.pdf/2", 2000, 500, "warming"),
    PrefixView("c4", "default", "default/望江路站.md/1", 1000, 256, "partial", hits=1, expires_at=400.0),
    PrefixView("d5", "archive", "archive/lockers.pdf/1", 4000, 0, "cold", created=10.0),
)

VIEW = CacheView(
    pool_tokens=16_000,
    block_size=32,
    instance="9f2c",
    resident_tokens=9_600,
    pinned_tokens=4_000,
    hot_tokens=2_000,
    queries_tokens=80_000,
    hits_tokens=72_000,
    evicted_blocks=7,
    predictions=40,
    wrong_predictions=1,
    uncertain_predictions=3,
    reads=6,
    joined_questions=9,
    live_streams=2,
    queue=Queue(read=3, room=1),
    features=Features(core=True, attention=False, events=True),
    first_token=FirstTokens(questions=44, warm_median_ms=38.4, cold_median_ms=2_310.0),
    prefixes=PREFIXES,
)


def view(**changes: Any) -> CacheView:
    return replace(VIEW, **changes)
