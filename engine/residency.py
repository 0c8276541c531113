"""Decides how much of a prefix the engine's cache holds, and what a question will find there.

Both come from vLLM's KV events, nothing is guessed. Each prediction is held against what vLLM reports: a difference is
an alarm, unless the cache changed in between in a way that explains it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from engine.base import EngineError
from engine.events import Feed
from engine.hashing import BlockHasher, Chain
from engine.holdings import Holdings
from engine.registered import Registered

CAUGHT_UP_WITHIN_S = 0.002
# Whoever waited for a document to be read does not feel it.
READ_IS_IN_WITHIN_S = 0.05
_MAX_AWAITED = 64
_log = logging.getLogger("vllm.readonce")


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a question's lookup will find if nothing changes before it.

    Attributes:
        cached_tokens: None where it is not known.
        prefix_ids, behind_ids: The blocks that the lookup may look at: the prefix's, then those that end in the tail.
        marks: The moment of the prediction in each core's holdings.
    """

    cached_tokens: int | None
    prefix: Registered
    tail_ids: tuple[int, ...]
    prefix_ids: Sequence[int] = ()
    behind_ids: Sequence[int] = ()
    marks: tuple[int, ...] = ()

    @property
    def ids(self) -> list[int]:
        return [*self.prefix_ids, *self.behind_ids]


@dataclass
class _Known:
    chain: Chain
    removals: list[int]
    runs: list[int]


class Residency:
    """What vLLM holds of each prefix.

    Args:
        hasher: None where the hashes can't be computed here; then nothing is known.
        holdings: One a core (data-parallel rank); a prefix is as resident as in the core that holds most of it.
        feeds: What keeps the holdings up to date; may be empty where a caller applies batches.
        why_unknown: The sentence for a server whose cache can't be followed at all.

    Attributes:
        predictions, wrong_predictions, uncertain_predictions: Settled ones; right are the rest of the first.
    """

    def __init__(
        self,
        hasher: BlockHasher | None,
        holdings: Sequence[Holdings],
        feeds: Sequence[Feed] = (),
        why_unknown: str | None = None,
    ) -> None:
        self._hasher = hasher
        self.holdings = tuple(holdings)
        self.feeds = tuple(feeds)
        self._why_unknown = why_unknown
        self._known: WeakKeyDictionary[Registered, _Known] = WeakKeyDictionary()
        self._awaited: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=_MAX_AWAITED)
        self._changed = asyncio.Event()
        self._doubts: set[asyncio.Task[None]] = set()
        self.predictions = self.wrong_predictions = self.uncertain_predictions = 0

    @property
    def why_unknown(self) -> str | None:
        """None while residency is known, else the reason in one sentence."""
        return self._why_unknown or next((one.why_unknown for one in self.holdings if one.why_unknown), None)

    @property
    def resident_blocks(self) -> int | None:
        """Blocks that a lookup can find, copies counted, over all cores."""
        numbers = [one.resident_blocks for one in self.holdings]
        return None if self.why_unknown else sum(number for number in numbers if number is not None)

    @property
    def stored_blocks(self) -> int:
        """Blocks stored since the start."""
        return sum(one.stored_blocks for one in self.holdings)

    @property
    def evicted_blocks(self) -> int:
        """Blocks that made room since the start; those of a reset are not among them."""
        return sum(one.evicted_blocks for one in self.holdings)

    @property
    def resets(self) -> int:
        """How often a core said that its cache is empty."""
        return sum(one.clears for one in self.holdings)

    async def start(self) -> None:
        """Follows the cores; where that fails nothing is known, and `why_unknown` says why."""
        try:
            for feed in self.feeds:
                await feed.start()
        except EngineError as problem:
            await self.stop()
            self._why_unknown = problem.message
            _log.warning("What the cache holds is not known: %s", problem.message)

    async def stop(self) -> None:
        for task in list(self._doubts):
            task.cancel()
        for feed in self.feeds:
            await feed.stop()

    def resident_tokens(self, prefix: Registered) -> int | None:
        """Tokens of the longest run of whole blocks from the start; None where it is not known.

        The first call for a prefix hashes it (about 1.5 ms a thousand blocks).
        """
        runs = self._runs(prefix)
        return None if runs is None or self._hasher is None else max(runs) * self._hasher.block_size

    def predict(self, prefix: Registered, tail_ids: Sequence[int]) -> Prediction:
        """What vLLM's lookup for prefix and tail finds now; it never takes the whole prompt."""
        tail = tuple(tail_ids)
        runs = self._runs(prefix)
        if runs is None or self._hasher is None:
            return Prediction(None, prefix, tail)
        size = self._hasher.block_size
        chain = self._known[prefix].chain
        most = (prefix.num_tokens + len(tail) - 1) // size
        # Where there is no tail, the last block of the prefix may be one that the lookup leaves out.
        prefix_ids = chain.ids if len(chain.ids) <= most else chain.ids[:most]
        behind_ids = self._hasher.ids_behind(chain, tail)[: most - len(prefix_ids)]
        marks = tuple(one.mark for one in self.holdings)
        found = max(
            min(run, most) if run < len(chain.ids) else len(prefix_ids) + (one.run(behind_ids) or 0)
            for one, run in zip(self.holdings, runs, strict=True)
        )
        return Prediction(found * size, prefix, tail, prefix_ids, behind_ids, marks)

    def settle(self, prediction: Prediction, reported: int | None, output_ids: Sequence[int] = ()) -> None:
        """Holds a prediction against the cached tokens that vLLM reported. A difference is judged a moment later.

        Args:
            output_ids: The answer where the request has ended: its blocks are then waited for by `caught_up`.
        """
        if prediction.cached_tokens is None or reported is None or self._hasher is None:
            return
        self.predictions += 1
        self._await_blocks(prediction, reported, output_ids)
        if prediction.cached_tokens != reported and not self._fits_another_core(prediction, reported):
            task = asyncio.get_running_loop().create_task(self._judge(prediction, reported))
            self._doubts.add(task)
            task.add_done_callback(self._doubts.discard)

    async def caught_up(self, limit_s: float = CAUGHT_UP_WITHIN_S) -> bool:
        """Waits for the events of the requests that were settled, so that the next prediction knows of them.

        Returns at once where they are in, and after `limit_s` at the latest; False where some were missing then.
        """
        is_in = await self._until(lambda: all(self._is_in(*one) for one in self._awaited), limit_s)
        self._awaited.clear()
        return is_in

    async def read_is_in(self, prefix: Registered, limit_s: float = READ_IS_IN_WITHIN_S) -> bool:
        """Waits, as `caught_up`, for the events of a read that has just come to the end of `prefix`."""

        def is_in() -> bool:
            runs = self._runs(prefix)
            return runs is None or max(runs) >= len(self._known[prefix].chain.ids)

        return await self._until(is_in, limit_s)

    async def confirm(self) -> None:
        """Returns when all that the cores published is in and every difference is judged: 100 ms where they idle."""
        for feed in self.feeds:
            await feed.confirm()
        await asyncio.gather(*self._doubts)

    def reset(self, clears: Sequence[int]) -> None:
        """A reset of the cache has succeeded; vLLM tells of it only with its next step.

        Args:
            clears: `Holdings.clears` of each core before the reset was called: what came since is that reset.
        """
        for one, before in zip(self.holdings, clears, strict=True):
            if one.clears == before:
                one.expect_clear()

    def on_change(self) -> None:
        """To be called when holdings have changed."""
        self._changed.set()

    async def _until(self, is_in: Callable[[], bool], limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        while not is_in():
            self._changed.clear()
            try:
                async with asyncio.timeout(end - time.monotonic()):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    def _runs(self, prefix: Registered) -> list[int] | None:
        """The run of each core; what was found earlier is only lengthened where nothing was removed since."""
        if self._hasher is None or self.why_unknown:
            return None
        known = self._known.get(prefix)
        if known is None:
            chain = self._hasher.chain(prefix.token_ids.tolist(), prefix.salt)
            known = self._known[prefix] = _Known(chain, [-1] * len(self.holdings), [0] * len(self.holdings))
        for rank, one in enumerate(self.holdings):
            start = known.runs[rank] if known.removals[rank] == one.removals else 0
            known.runs[rank] = one.run(known.chain.ids, start) or 0
            known.removals[rank] = one.removals
        return known.runs

    def _await_blocks(self, prediction: Prediction, reported: int, output_ids: Sequence[int]) -> None:
        assert self._hasher is not None
        known = self._known[prediction.prefix]
        behind = self._hasher.ids_behind(known.chain, (*prediction.tail_ids, *output_ids[:-1]))
        num_blocks = len(known.chain.ids) + len(behind)
        if num_blocks * self._hasher.block_size > reported:
            self._awaited.append((behind[-1] if behind else known.chain.ids[-1], prediction.marks))

    def _is_in(self, one: int, marks: tuple[int, ...]) -> bool:
        return any(held.was_stored_since(mark, one) for held, mark in zip(self.holdings, marks, strict=True))

    def _fits_another_core(self, prediction: Prediction, reported: int) -> bool:
        """With several cores nobody says which one answered."""
        assert self._hasher is not None
        runs = [one.run(prediction.ids) for one in self.holdings]
        return len(runs) > 1 and any(run is not None and run * self._hasher.block_size == reported for run in runs)

    async def _judge(self, prediction: Prediction, reported: int) -> None:
        for feed in self.feeds:
            await feed.confirm()
        assert self._hasher is not None
        for one, mark in zip(self.holdings, prediction.marks, strict=True):
            runs = one.runs_since(mark, prediction.ids)
            if runs is None or reported in {run * self._hasher.block_size for run in runs}:
                self.uncertain_predictions += 1
                return
        self.wrong_predictions += 1
        _log.warning(
            "Wrong prediction: the cache was taken to hold %d of %d prompt tokens, vLLM found %d (prefix %s).",
            prediction.cached_tokens,
            prediction.prefix.num_tokens + len(prediction.tail_ids),
            reported,
            prediction.prefix.id,
        )
