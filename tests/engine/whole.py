"""All of our side of a server over a simulated engine, on the virtual clock: routes, registry, door, residency."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugin_parts import BlockResidency, Counted, ask, call
from simulated import SimulatedBridge
from starlette.applications import Starlette

from engine.admission import Admission
from engine.pace import Pace
from engine.parts import Parts
from engine.pins import Pool
from engine.plugin import Plugin
from engine.prefixes import Registry
from engine.registered import Registered
from engine.salts import Salts
from engine.view import Features

MAX_MODEL_LEN = 400


@dataclass(frozen=True)
class Whole:
    app: Starlette
    bridge: SimulatedBridge

    async def register(self, token_ids: list[int], **fields: Any) -> str:
        """Not read yet; the first question has it read."""
        status, view = await call(self.app, "POST", "/v1/prefixes", {"token_ids": token_ids, "warm": "no"} | fields)
        assert status == 200, view
        return str(view["id"])

    async def ask(self, handle: str, *tail: int) -> dict[str, Any]:
        """The receipt."""
        events = await ask(self.app, handle, token_ids=list(tail or (5,)), max_tokens=2)
        receipt = events[-1]["receipt"]
        assert isinstance(receipt, dict)
        return receipt

    async def look(self, handle: str) -> dict[str, Any] | None:
        """None where the server knows no such handle."""
        status, view = await call(self.app, "GET", f"/v1/prefixes/{handle}")
        assert status in (200, 404)
        return view if status == 200 else None

    async def resident(self, *handles: str) -> list[int]:
        views = [await self.look(handle) for handle in handles]
        return [-1 if view is None else view["resident_tokens"] for view in views]


@asynccontextmanager
async def opened(folder: Path, num_tokens: int) -> AsyncIterator[Whole]:
    """A server whose cache holds so many tokens; its registry lives by the loop's clock."""
    bridge = SimulatedBridge(num_tokens)
    residency = BlockResidency(bridge.cache)
    pinned: list[Registered] = []
    door = Admission(
        bridge,
        residency.resident_tokens,
        pace=Pace(step_s=0.5, block_size=bridge.block_size, max_tokens=bridge.max_num_batched_tokens),
        pinned=lambda: pinned,
        stored_blocks=bridge.stored_blocks,
    )
    pool = Pool(num_tokens, bridge.block_size, MAX_MODEL_LEN, 0.5)
    registry = Registry(folder / "prefixes", Salts(folder), pool, clock=asyncio.get_running_loop().time)
    parts = Parts(
        registry=registry,
        bridge=bridge,
        residency=residency,
        door=door,
        vocabulary=_no_words,
        features=Features(core=True, events=True),
        instance="i1",
        pinned=pinned,
        metrics=Counted(),
    )

    async def given(engine_client: object) -> Parts:
        return parts

    plugin, app = Plugin(given), Starlette()
    plugin.attach_router(app)
    await plugin.init_state(object(), app.state, None)
    yield Whole(app, bridge)
    for task in list(plugin._tasks):
        task.cancel()
    await door.close()
    registry.close()


def _no_words() -> Any:
    raise AssertionError("ids were asked for")
