"""A door before a simulated engine, and people who ask there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from simulated import BLOCK, SimulatedBridge

from engine.admission import Admission
from engine.base import Sampling
from engine.pace import Pace
from engine.registered import Registered

STEP_S = 0.128  # 128 tokens
SMALL_STEP_TOKENS = 64  # of an engine before which steps are queued


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True)
class Answer:
    """What became of a question; seconds of the loop's clock."""

    prefix_id: str
    arrived_s: float
    placed_s: float
    first_token_s: float
    waited_for: str | None
    cached_tokens: int | None

    @property
    def first_token_after_s(self) -> float:
        return self.first_token_s - self.arrived_s


@dataclass(eq=False)
class Desk:
    """An engine with a pool of so many tokens and its door.

    Attributes:
        queues: The next step of a read waits in the engine, whose own steps are small.
        residency: `told`: the door is told what is cached; `late`: 20 ms after each step; `silent`: it is told nothing.
    """

    num_tokens: int = 8192
    residency: str = "told"
    slope_s: float = 0.0
    pinned: Callable[[], Iterable[Registered]] = tuple
    queues: bool = False
    bridge: SimulatedBridge = field(init=False)
    pace: Pace = field(init=False)
    door: Admission = field(init=False)

    def __post_init__(self) -> None:
        at_once = SMALL_STEP_TOKENS if self.queues else 512
        self.bridge = SimulatedBridge(self.num_tokens, at_once, slope_s=self.slope_s)
        self.pace = Pace(step_s=STEP_S, block_size=BLOCK, max_tokens=512)
        self.pace.observe(0, 512, 0.512)  # it knows its machine
        self._told: dict[str, int] = {}
        self._asked: dict[str, Registered] = {}
        self.bridge.on_cached = self._tell_late
        self.door = Admission(
            self.bridge,
            self._resident_tokens,
            pace=self.pace,
            pinned=self.pinned,
            stored_blocks=self.bridge.stored_blocks,
            queues=self.queues,
        )

    def _resident_tokens(self, registered: Registered) -> int | None:
        if self.residency == "silent":
            return None
        if self.residency == "told":
            return self.bridge.resident_tokens(registered)
        self._asked[registered.id] = registered
        return self._told.get(registered.id, 0)

    def _tell_late(self) -> None:
        if self.residency == "late":
            for one in self._asked.values():
                asyncio.get_running_loop().call_later(
                    0.02, self._told.__setitem__, one.id, self.bridge.resident_tokens(one)
                )

    async def ask(
        self, registered: Registered, *, at_s: float = 0.0, number: int = 0, num_tail: int = 8, max_tokens: int = 4
    ) -> Answer:
        await asyncio.sleep(at_s)
        arrived_s = now()
        name = f"question {number} of {registered.name}"
        tail = [50_000 + number * 100 + n for n in range(num_tail)]
        async with self.door.enter(registered, num_tail, name, max_tokens) as place:
            placed_s, first_token_s, cached = now(), 0.0, None
            stream = self.bridge.generate(registered, tail, Sampling(max_tokens=max_tokens), name)
            try:
                async for output in stream:
                    if not first_token_s:
                        first_token_s = now()
                        place.first_token()
                    cached = output.cached_tokens
            finally:
                await stream.aclose()
        return Answer(registered.id, arrived_s, placed_s, first_token_s, place.waited_for, cached)

    def check_all_is_quiet(self) -> None:
        """Nobody waits or runs, nothing is hot or read, in the door and in the engine."""
        queue = self.door.snapshot()
        assert (queue.waiting_read, queue.waiting_room, queue.running, queue.reading) == (0, 0, 0, None)
        assert queue.hot_tokens == 0
        assert self.bridge.num_requests == 0
        assert list(self.door._documents) == []


async def gather(*asked: Any) -> list[Answer]:
    return list(await asyncio.gather(*asked))
