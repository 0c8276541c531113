"""What running and waiting questions are told when the server stops, over a client that behaves as vLLM's does."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace

import pytest

from engine.stopping import end_with_the_engine


async def test_who_waits_is_turned_away_before_and_who_runs_told_after_the_engine_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine may go on until running answers have ended; what is left then hears that there is no engine."""
    dead = type("EngineDeadError", (Exception,), {})
    module = ModuleType("exceptions")
    vars(module)["EngineDeadError"] = dead
    for name in ("vllm", "vllm.v1", "vllm.v1.engine"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.exceptions", module)
    happened: list[object] = []
    told = asyncio.Event()

    def tell(error: Exception) -> None:
        happened.append(type(error))
        told.set()

    async def close_door() -> None:
        happened.append("closed")

    def shutdown(timeout: float) -> str:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()  # what was begun before has run by then
        happened.append(timeout)
        return "stopped"

    loop = asyncio.get_running_loop()
    client = SimpleNamespace(shutdown=shutdown, output_processor=SimpleNamespace(propagate_error=tell))
    end_with_the_engine(client, close_door)
    assert await asyncio.to_thread(client.shutdown, timeout=3.0) == "stopped"
    await told.wait()
    assert happened == ["closed", 3.0, dead]


def test_stopping_after_the_event_loop_has_ended_is_harmless() -> None:
    """vLLM stops its engine once more when its objects go."""
    stopped: list[bool] = []
    client = SimpleNamespace(shutdown=lambda: stopped.append(True))

    async def begin() -> None:
        async def close_door() -> None:
            raise AssertionError("nobody is there")

        end_with_the_engine(client, close_door)

    asyncio.run(begin())
    client.shutdown()
    assert stopped == [True]
