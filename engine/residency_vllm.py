"""Decides whether the cache of a vLLM server can be followed, and puts together what follows it."""

from __future__ import annotations

import logging
from typing import Any

from engine.base import EngineError
from engine.bridge import Bridge
from engine.events import Feed, find_sources, vllm_decoder
from engine.hashing import open_hasher
from engine.holdings import Holdings
from engine.residency import Residency

_log = logging.getLogger("vllm.readonce")


async def open_residency(engine_client: Any, bridge: Bridge) -> Residency:
    """The residency of the server's own cores, not started yet; `why_unknown` says where it can't be had."""
    config = engine_client.vllm_config
    try:
        if not config.cache_config.enable_prefix_caching:
            raise EngineError("events_off", "Prefix caching is off; start the server with --enable-prefix-caching.")
        if getattr(config, "kv_transfer_config", None) is not None:
            raise EngineError("events_off", "A KV connector brings blocks that the events of the pool do not show.")
        if getattr(config, "speculative_config", None) is not None:
            raise EngineError("events_off", "With speculative decoding a lookup finds other blocks than are held.")
        sources = find_sources(config)
        hasher = open_hasher(config, bridge.block_size, await _root(bridge))
    except EngineError as problem:
        _log.warning("What the cache holds is not known: %s", problem.message)
        return Residency(None, (), why_unknown=problem.message)
    holdings = [Holdings(bridge.num_blocks) for _ in sources]
    residency = Residency(hasher, holdings)
    decode = vllm_decoder(hasher)
    residency.feeds = tuple(
        Feed(source, one, decode, residency.on_change) for source, one in zip(sources, holdings, strict=True)
    )
    _follow_resets(engine_client, residency)
    return residency


async def _root(bridge: Bridge) -> bytes | None:
    ask = getattr(bridge, "none_hash", None)  # only where the core can be asked
    return None if ask is None else await ask()


def _follow_resets(engine_client: Any, residency: Residency) -> None:
    """Hears of a reset when it is called in this process."""
    reset = engine_client.reset_prefix_cache

    async def reset_and_tell(*arguments: Any, **named: Any) -> Any:
        clears = [one.clears for one in residency.holdings]
        done = await reset(*arguments, **named)
        if done is not False:
            residency.reset(clears)
        return done

    engine_client.reset_prefix_cache = reset_and_tell
