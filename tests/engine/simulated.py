"""An engine core without a model: vLLM's scheduling (running first, then by priority) over its block rules, in steps.

A step takes the seconds that its tokens cost, on whatever clock the event loop has.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from engine.base import EngineError, Sampling, prefix_id
from engine.blocks import BlockCache, NoRoomError, Run
from engine.bridge import Output
from engine.registered import Registered

BLOCK = 16
TOKEN_S = 0.001


def document(number: int, num_tokens: int) -> Registered:
    """A prefix with ids of its own."""
    ids = np.arange(num_tokens, dtype=np.int32) + 1_000_000 * (number + 1)
    ids.setflags(write=False)
    return Registered(prefix_id("kb", ids), "kb", f"document {number}", ids, "salt")


@dataclass(eq=False)
class Request:
    name: str
    prefix_id: str
    run: Run
    num_prompt: int
    num_left: int
    order: tuple[int, int]
    outputs: asyncio.Queue[Output | EngineError] = field(default_factory=asyncio.Queue)


@dataclass(frozen=True)
class Step:
    """One step of the engine: when it began, how long it took, tokens computed for each request."""

    began_s: float
    seconds: float
    num_tokens: dict[str, int]


class SimulatedBridge:
    """Speaks `engine.bridge.Bridge`.

    Attributes:
        computed: Prompt tokens computed, by prefix.
        reads: Ids of the prefixes of all `read` calls, in order.
        aborted: Names of the requests that were aborted.
        failures: The next calls of `read` or `generate` fail with these, after a moment.
        on_step: Called after each step.
        on_cached: Called before a step's outputs are given.
    """

    def __init__(self, num_tokens: int, max_num_batched_tokens: int = 512, slope_s: float = 0.0) -> None:
        self.cache = BlockCache(num_tokens // BLOCK + 1, BLOCK)
        self.max_num_batched_tokens = max_num_batched_tokens
        self.slope_s = slope_s
        self.computed: Counter[str] = Counter()
        self.reads: list[str] = []
        self.steps: list[Step] = []
        self.aborted: list[str] = []
        self.failures: list[EngineError] = []
        self.on_step: Callable[[], None] = lambda: None
        self.on_cached: Callable[[], None] = lambda: None
        self.num_stored = 0
        self._waiting: list[Request] = []
        self._running: list[Request] = []
        self._arrivals = count()
        self._task: asyncio.Task[None] | None = None

    @property
    def block_size(self) -> int:
        return BLOCK

    @property
    def num_blocks(self) -> int:
        return self.cache.num_blocks

    @property
    def max_model_len(self) -> int:
        return 100_000

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def num_requests(self) -> int:
        return len(self._waiting) + len(self._running)

    def resident_tokens(self, registered: Registered) -> int:
        """The truth, without delay."""
        return self.cache.count_cached([*registered.token_ids.tolist(), 0], registered.salt)

    def stored_blocks(self) -> int:
        return self.num_stored

    async def generate(
        self, prefix: Registered, tail_ids: Sequence[int], sampling: Sampling, request_id: str
    ) -> AsyncGenerator[Output, None]:
        async for output in self._stream(
            prefix, [*prefix.token_ids.tolist(), *tail_ids], sampling.max_tokens, sampling.priority, request_id
        ):
            yield output

    async def read(self, prefix: Registered, num_tokens: int, priority: int, request_id: str) -> int | None:
        self.reads.append(prefix.id)
        ids = [*prefix.token_ids[:num_tokens].tolist(), 7]
        cached: int | None = None
        async for output in self._stream(prefix, ids, 1, priority, request_id):
            cached = output.cached_tokens
        return cached

    async def forget(self, prefix: Registered) -> int:
        return 0

    async def _stream(
        self, prefix: Registered, ids: list[int], max_tokens: int, priority: int, name: str
    ) -> AsyncGenerator[Output, None]:
        request = Request(
            name, prefix.id, Run(ids, prefix.salt), len(ids), max_tokens, (priority, next(self._arrivals))
        )
        if self.failures:
            failure = self.failures.pop(0)
            await asyncio.sleep(0.01)
            raise failure
        self._waiting.append(request)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="engine")
        try:
            while True:
                output = await request.outputs.get()
                if isinstance(output, EngineError):
                    raise output
                yield output
                if output.finish_reason:
                    return
        finally:
            if request in self._waiting or request in self._running:
                self.aborted.append(name)
                self._end(request)

    async def _work(self) -> None:
        try:
            while self._waiting or self._running:
                began_s = asyncio.get_running_loop().time()
                scheduled, seconds = self._schedule()
                assert scheduled, "a request that never fits was let in"
                await asyncio.sleep(seconds)
                self.on_cached()
                self.steps.append(Step(began_s, seconds, {one.name: n for one, n in scheduled.items()}))
                for request in scheduled:
                    if request in self._running and request.run.num_computed == len(request.run.token_ids):
                        self._draw(request)
                self.on_step()
        finally:
            self._task = None

    def _schedule(self) -> tuple[dict[Request, int], float]:
        budget, seconds = self.max_num_batched_tokens, 0.0
        scheduled: dict[Request, int] = {}
        for request in list(self._running):
            if request in self._running and budget:
                n = self._compute(request, budget)
                scheduled[request] = n
                budget -= n
        for request in sorted(self._waiting, key=lambda one: one.order):
            if not budget:
                break
            try:
                self.cache.resume(request.run)
            except NoRoomError:
                break
            if len(request.run.token_ids) == request.num_prompt:
                request.run.num_cached = request.run.num_computed
            self._waiting.remove(request)
            self._running.append(request)
            n = self._compute(request, budget)
            scheduled[request] = n
            budget -= n
        for request, n in scheduled.items():
            seconds += n * (TOKEN_S + self.slope_s * request.run.num_computed)
        return {one: n for one, n in scheduled.items() if n}, seconds

    def _compute(self, request: Request, budget: int) -> int:
        while True:
            before, hashed = request.run.num_computed, request.run.num_hashed_blocks
            try:
                self.cache.compute(request.run, budget)
            except NoRoomError:
                victim = max(self._running, key=lambda one: one.order)
                self._running.remove(victim)
                self._waiting.append(victim)
                self.cache.free(victim.run)
                if victim is request:
                    return 0
                continue
            self.num_stored += request.run.num_hashed_blocks - hashed
            n = request.run.num_computed - before
            self.computed[request.prefix_id] += max(min(request.run.num_computed, request.num_prompt) - before, 0)
            return n

    def _draw(self, request: Request) -> None:
        request.num_left -= 1
        request.run.token_ids.append(3)
        ended = request.num_left == 0
        request.outputs.put_nowait(Output((3,), request.run.num_cached, "length" if ended else None))
        if ended:
            self._end(request)

    def _end(self, request: Request) -> None:
        if request in self._waiting:
            self._waiting.remove(request)
        else:
            self._running.remove(request)
        self.cache.free(request.run)
