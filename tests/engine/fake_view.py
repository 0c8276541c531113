"""What the fake engine holds, as the engine's own side would tell it: for pages that show it."""

from __future__ import annotations

from engine.fake import FakeEngine
from engine.view import CacheView, PrefixView, State


def view_of(engine: FakeEngine) -> CacheView:
    """Prefixes that share no block, as those of different documents do."""
    read_now = {call.prompt.prefix.id for call in engine.calls if call.reason is None}
    prefixes = []
    for kept in engine._named._kept.values():
        prefix, handle = kept.prefix, engine._named.handle(kept.prefix)
        known: State = "partial" if handle.resident_tokens else "cold"
        state: State = "warm" if handle.state == "warm" else "warming" if prefix.id in read_now else known
        prefixes.append(
            PrefixView(
                prefix.id,
                prefix.namespace,
                prefix.name,
                prefix.num_tokens,
                handle.resident_tokens,
                state,
                pinned=kept.held is not None,
                last_used=kept.used_at,
            )
        )
    size = engine.cache.block_size
    ended = [call for call in engine.calls if call.cached_tokens is not None]
    return CacheView(
        (engine.cache.num_blocks - 1) * size,
        size,
        "fake-1",
        resident_tokens=sum(prefix.resident_tokens or 0 for prefix in prefixes),
        pinned_tokens=sum(prefix.resident_tokens or 0 for prefix in prefixes if prefix.pinned),
        queries_tokens=sum(call.num_tokens for call in ended),
        hits_tokens=sum(call.cached_tokens or 0 for call in ended),
        prefixes=tuple(prefixes),
    )
