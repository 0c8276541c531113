"""Decides how questions end when vLLM's server is told to stop: each with a sentence, none holds the server up.

vLLM stops its engine first and then waits for open connections. What still streamed then would wait for ever for a
token that nobody draws, and the server for its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any


def end_with_the_engine(engine_client: Any, close_door: Callable[[], Awaitable[None]]) -> None:
    """To be called in the server's event loop, once.

    Args:
        engine_client: vLLM's `AsyncLLM`; its `shutdown` is called in another thread.
        close_door: Turns away who waits; called before the engine stops, which may take until running answers ended.
    """
    loop = asyncio.get_running_loop()
    shutdown = engine_client.shutdown
    closing: list[asyncio.Future[None]] = []

    def close() -> None:
        closing.append(asyncio.ensure_future(close_door()))

    def tell_who_is_left() -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        engine_client.output_processor.propagate_error(EngineDeadError())

    @functools.wraps(shutdown)
    def stopping(*arguments: Any, **named: Any) -> Any:
        with contextlib.suppress(RuntimeError):  # at the very end there is no loop any more, and nobody in it
            loop.call_soon_threadsafe(close)
        try:
            return shutdown(*arguments, **named)
        finally:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(tell_who_is_left)

    engine_client.shutdown = stopping
