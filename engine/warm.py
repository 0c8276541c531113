"""Decides how a prefix is read ahead of its questions: in growing steps, each from where the cache ends.

A step is one small request of its own. Between two steps anything else can run; within one vLLM goes on answering, but
what arrives then waits for its end. So a step is as long as a question may wait, and no longer (`pace`).

Where a step takes little more than the way to the engine and back, the next one waits behind it in the engine's queue
already. vLLM begins it when the first one leaves room, and it finds then what that one has computed; a question that
comes meanwhile goes before it. A third one is sent just before the first one ends: vLLM decides what its next step is
as soon as one ends, before we have heard of it. Any earlier, and two would come into one step of vLLM's.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.base import EngineError
from engine.belief import Belief
from engine.bridge import Bridge
from engine.pace import Pace
from engine.registered import Registered

PRIORITY = 10  # the lower, the earlier: below every question
MAX_STALLS = 3
# The way to the engine, several times over.
EARLY_S = 0.01

Cause = Literal["registered", "selected", "resumed", "restarted"]
State = Literal["waiting", "reading", "warm", "cancelled", "failed"]

_numbers = itertools.count(1)


@dataclass(frozen=True)
class _Step:
    """A request that was sent: how far it reads, since when, and what it will have found cached."""

    num_tokens: int
    end: int
    began_s: float
    read: asyncio.Task[int | None]


class Reading:
    """One prefix on its way into the cache. What was read stays there: another reading of it begins at that place.

    Args:
        queues: The next step waits in the engine while one runs, and one more a moment before that ends.

    Attributes:
        position: Tokens that are cached as far as this reading knows.
        target: Tokens of the prefix's whole blocks.
    """

    def __init__(
        self, bridge: Bridge, pace: Pace, belief: Belief, registered: Registered, *, queues: bool = False
    ) -> None:
        self._bridge = bridge
        self._pace = pace
        self._belief = belief
        self._registered = registered
        self.target = belief.whole(registered)
        self.position = self._low = belief.cached(registered)
        self._num_found = 0
        self._num_stalls = 0
        self._queues = queues
        self._queued: deque[_Step] = deque()
        self._ended_s = 0.0

    @property
    def is_done(self) -> bool:
        return self.position >= self.target

    @property
    def progress(self) -> float:
        """0 to 1."""
        return self.position / self.target if self.target else 1.0

    @property
    def left_s(self) -> float:
        """Seconds that the rest takes; 0 while no step was measured yet."""
        return self._pace.seconds(self.position, self.target)

    async def step(self, *, alone: bool) -> None:
        """Reads the next tokens. Cancelling it aborts them in the engine and leaves `position` as it was.

        Raises:
            EngineError: `does_not_stay` if what was read was lost again three times without getting further;
                what `Bridge.read` raises.
        """
        clock = asyncio.get_running_loop().time
        step = self._queued.popleft() if self._queued else None
        try:
            if step is None:
                cached = self._belief.cached(self._registered)
                if cached < self.position:
                    self._fall(cached)
                    self.position = cached
                step = self._begin(self.position, alone)
            if self._queues:
                await self._queue_behind(step, alone)
            found = await step.read
        except BaseException:
            if step is not None:
                step.read.cancel()
            await self.abandon()
            raise
        if found is None:
            found = self.position
        # What waited behind the step before began when that one ended.
        self._pace.observe(found, step.end - found, clock() - max(step.began_s, self._ended_s))
        self._ended_s = clock()
        self._num_found = step.end - self.position if found >= step.end else 0
        before, self.position = self.position, step.end
        self._belief.saw(self._registered, step.end)
        if found < before:
            self._fall(found)

    async def abandon(self) -> None:
        """Takes back what waits in the engine; the reading is over, or begins its next step anew."""
        steps, self._queued = self._queued, deque()
        for step in steps:
            step.read.cancel()
        if steps:
            await asyncio.wait({step.read for step in steps})

    async def _queue_behind(self, step: _Step, alone: bool) -> None:
        """Sends the step after this one, and where this one lasts, the next but one before it ends."""
        clock = asyncio.get_running_loop().time
        if not self._queued:
            self._queue(step, alone)
        if len(self._queued) == 1 and self._queued[-1].end < self.target:
            takes_s = self._pace.seconds(step.end - step.num_tokens, step.end)
            await asyncio.wait({step.read}, timeout=max(step.began_s, self._ended_s) + takes_s - EARLY_S - clock())
            if not step.read.done():
                self._queue(self._queued[-1], alone)

    def _queue(self, last: _Step, alone: bool) -> None:
        if last.end < self.target:
            self._queued.append(self._begin(last.end, alone))

    def _begin(self, position: int, alone: bool) -> _Step:
        end = min(position + self._size(position, alone), self.target)
        loop = asyncio.get_running_loop()
        name = f"read-{self._registered.id}-{next(_numbers)}"
        return _Step(
            end - position,
            end,
            loop.time(),
            loop.create_task(self._bridge.read(self._registered, end, PRIORITY, name), name=name),
        )

    def _size(self, position: int, alone: bool) -> int:
        size = self._pace.step_tokens(position, alone=alone)
        # All of the last step was there already, which nobody had told: the next one looks further ahead.
        return max(size, min(2 * self._num_found, self._pace.largest))

    def _fall(self, cached: int) -> None:
        self._num_stalls = self._num_stalls + 1 if cached <= self._low else 0
        self._low = cached
        if self._num_stalls >= MAX_STALLS:
            raise EngineError(
                "does_not_stay",
                f"The prefix {self._registered.id} of {self._registered.num_tokens} tokens does not stay in the cache: "
                f"{MAX_STALLS} times all but its first {cached} tokens were gone while it was read. Use fewer "
                "prefixes at the same time, or give the engine a larger cache.",
            )


class Warming:
    """Somebody's wish that a prefix is read ahead of its questions; the same one for all who wish it at that time.

    Attributes:
        id: The prefix's.
        cause: Why; of several wishes the first.
    """

    def __init__(self, registered: Registered, cause: Cause, progress: Callable[[], float]) -> None:
        self.id = registered.id
        self.cause = cause
        self.state: State = "waiting"
        self._progress = progress
        self._error: Exception | None = None
        self._ended = asyncio.Event()

    @property
    def progress(self) -> float:
        """0 to 1."""
        return 1.0 if self.state == "warm" else self._progress()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    async def wait(self) -> State:
        """Waits for the end: `warm` or `cancelled`.

        Raises:
            EngineError: It failed: `does_not_stay`, or what the engine said.
        """
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        return self.state

    def end(self, state: State, error: Exception | None = None) -> None:
        """The reader's affair."""
        if not self.has_ended:
            self._last_progress(state)
            self._error = error
            self._ended.set()

    def _last_progress(self, state: State) -> None:
        reached = self._progress()
        self._progress = lambda: reached
        self.state = state
