"""Decides what the server's parts are built from: vLLM's engine, the knobs in the environment, the stored prefixes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from functools import cache
from typing import Any

from engine.base import EngineError
from engine.detokenize import Vocabulary
from engine.inside import prefixes_folder
from engine.knobs import Knobs, read_knobs
from engine.parts import Parts
from engine.pins import Pool
from engine.prefixes import Registry
from engine.registered import Registered
from engine.salts import Salts
from engine.stopping import end_with_the_engine
from engine.traces import of_server
from engine.view import Features

# One step of ours may be several of the engine's: what bounds it is its time, and each answer that it waits for costs a
# few milliseconds in which nothing is read.
_MOST_ENGINE_STEPS = 8
_SHORT_STEP_TOKENS = 1024


async def open_parts(engine_client: Any) -> Parts:
    """Everything that the routes need, following the cache already.

    Args:
        engine_client: vLLM's `AsyncLLM`.

    Raises:
        EngineError: `bad_setting`, `unknown_setting`, `state_unusable`.
    """
    from engine.admission import Admission
    from engine.bridge_vllm import open_bridge
    from engine.pace import Pace
    from engine.residency_vllm import open_residency

    knobs = read_knobs(os.environ)
    bridge = open_bridge(engine_client, knobs.core and _core_keeps_prefixes())
    config = engine_client.vllm_config
    pool = Pool(
        num_tokens=(bridge.num_blocks - 1) * bridge.block_size,  # one is vLLM's null block
        block_size=bridge.block_size,
        max_model_len=bridge.max_model_len,
        pin_share=knobs.pin_share,
        vocabulary=int(config.model_config.get_vocab_size()),
    )
    registry = Registry(prefixes_folder(), Salts(knobs.state), pool)
    residency = await open_residency(engine_client, bridge)
    await residency.start()
    pinned: list[Registered] = []
    door = Admission(
        bridge,
        residency.resident_tokens,
        pace=Pace(
            step_s=knobs.step_ms_on(bridge.device) / 1000,
            block_size=bridge.block_size,
            max_tokens=_MOST_ENGINE_STEPS * config.scheduler_config.max_num_batched_tokens,
        ),
        pinned=lambda: pinned,
        stored_blocks=lambda: residency.stored_blocks,
        # Two queued steps can come into one of the engine's, which has to be short by itself; and a step of half a
        # second does not mind the way.
        queues=bridge.device == "cuda" and config.scheduler_config.max_num_batched_tokens <= _SHORT_STEP_TOKENS,
    )
    end_with_the_engine(engine_client, door.close)
    return Parts(
        registry=registry,
        bridge=bridge,
        residency=residency,
        door=door,
        vocabulary=_vocabulary_of(engine_client),
        features=_features(knobs, config, residency.why_unknown is None),
        instance=secrets.token_hex(8),
        pinned=pinned,
        traces=of_server(engine_client),
    )


def _core_keeps_prefixes() -> bool:
    """`inside` changed this process as it changed the engine core's: the same vLLM, the same environment."""
    from vllm.v1.engine import core

    return getattr(core, "_readonce_memo", None) is not None


def _features(knobs: Knobs, config: Any, follows_events: bool) -> Features:
    backend = getattr(getattr(config, "attention_config", None), "backend", None)
    return Features(
        core=knobs.core and _core_keeps_prefixes(),
        attention=getattr(backend, "name", None) == "CUSTOM" and config.device_config.device_type == "cuda",
        events=follows_events,
    )


def _vocabulary_of(engine_client: Any) -> Callable[[], Vocabulary]:
    @cache
    def vocabulary() -> Vocabulary:
        try:
            tokenizer = getattr(engine_client.get_tokenizer(), "backend_tokenizer", None)
        except ValueError:  # --skip-tokenizer-init
            tokenizer = None
        if tokenizer is None:
            raise EngineError(
                "no_tokenizer", "This server has no tokenizer that can write words; ask for token ids (text: false)."
            )
        return Vocabulary(tokenizer)

    return vocabulary
