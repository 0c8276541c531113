"""Decides how an engine's speed of now is found out before a batch: it reads and says a little of no meaning.

That takes a second or two, stands behind all questions, and is let go at once. It teaches the first dry run on a
machine what no batch has taught yet, and each later one how busy the machine is.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing
from typing import TYPE_CHECKING

from app.batch.timing.clock import MEASURED, Clock, Seen
from app.batch.timing.learnt import keep_seen
from app.put import streamed
from engine.base import EngineError, Finish, Prefix, Prompt, Sampling

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.batch.options import BatchOptions
    from app.engines import Report
    from engine.base import Engine
    from engine.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

# What is read is larger each time, up to a section, until all of it took long enough to tell: the tokens of an answer
# take the longer the more there is before them.
_FIRST_READ_TOKENS = 512
_GROWS = 4
_LONG_ENOUGH_S = 1.0
_QUESTION_TOKENS = 16
_ANSWER_TOKENS = 16
_PRIORITY = 10
# On a machine so busy that it takes longer, what batches have taught has to do.
_LONGEST_S = 20.0
# Of answers that were asked for together, so many tell what all do.
_MOST_KEPT = 2
_NAMESPACE = "measured"
# It goes by itself where nobody lets it go: a command may be killed meanwhile.
_KEPT_S = 120.0
_WORDS = "Where the path bends, a gate of seven old boards stands half open, and nobody remembers who left it so. " * 8


async def measure(assistant: Assistant, options: BatchOptions, report: Report = lambda sentence: None) -> None:
    """Measures the engine in use, and keeps what was seen for `load_rates`.

    Nothing is measured where the engine does not tell whether there is room for it beside what it holds.

    Raises:
        EngineError: There is no engine, and none could be started.
    """
    settings = assistant.settings
    reader = await assistant.reader(report)
    at_once = options.answers_at_once(settings)
    room = await asyncio.to_thread(_room, assistant, at_once)
    measuring = _Measuring(reader.engine, reader.layout.tokenizer, room, settings.section_budget)
    report("Measuring how fast the engine is.")
    try:
        async with asyncio.timeout(_LONGEST_S):
            await measuring.run(at_once)
    except (EngineError, TimeoutError) as error:
        _log.info("The engine's speed could not be measured: %s", error)
    finally:
        await measuring.let_go()
    await asyncio.to_thread(keep_seen, settings, measuring.seen)


def _room(assistant: Assistant, at_once: int) -> int:
    """Tokens that can be read without another document's going; 0 where that is not known. Blocking."""
    try:
        view = assistant.cache()
    except EngineError:
        return 0
    if view is None or view.resident_tokens is None:
        return 0
    held = sum(one.resident_tokens or 0 for one in view.prefixes)
    return max(0, view.pool_tokens - held - at_once * (_QUESTION_TOKENS + _ANSWER_TOKENS + view.block_size))


class _Measuring:
    """Args: `room`, tokens that may be read in all."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, room: int, section_tokens: int) -> None:
        self._engine = engine
        self._ids = tokenizer.encode_text(_WORDS)
        self._room = room
        self._section_tokens = section_tokens
        self._clock = Clock(asyncio.get_running_loop().time)
        self._read: list[Prefix] = []

    @property
    def seen(self) -> Seen:
        return self._clock.seen

    async def run(self, at_once: int) -> None:
        """Reads as much as it takes to tell, has answers given, alone and so many together, and then does both."""
        num_tokens = min(_FIRST_READ_TOKENS, self._section_tokens)
        if 3 * num_tokens > self._room:
            return
        prefix = self._prefix(num_tokens // 4)
        await self._read_in(prefix)  # an engine's very first steps are slow
        await self._answer(prefix, num_tokens=2, is_kept=False)
        prefix = self._prefix(num_tokens)
        timed_s = await self._read_timed(prefix)
        while timed_s < _LONG_ENOUGH_S and (larger := self._larger(num_tokens)) > num_tokens:
            num_tokens = larger
            prefix = self._prefix(num_tokens)
            timed_s += await self._read_timed(prefix)
        # On a busy machine there may be time for the first of these alone.
        await self._answer_together(prefix, at_once)
        if at_once > 1:
            await self._answer_together(prefix, 1)
        await asyncio.gather(self._answer_together(prefix, at_once), self._read_timed(self._prefix(num_tokens)))

    async def let_go(self) -> None:
        for prefix in self._read:
            try:
                await self._engine.free_prefix(prefix)
            except EngineError as error:
                _log.info("The engine was not told to free what it was measured with: %s", error)

    def _larger(self, num_tokens: int) -> int:
        """What is read next, and once more beside answers; `num_tokens` where there is no room for more."""
        larger = min(_GROWS * num_tokens, self._section_tokens)
        read_so_far = sum(prefix.num_tokens for prefix in self._read)
        return larger if read_so_far + 2 * larger <= self._room else num_tokens

    def _prefix(self, num_tokens: int) -> Prefix:
        """One that no engine has read."""
        return Prefix(tuple(random.choices(self._ids, k=num_tokens)), _NAMESPACE, _NAMESPACE)

    async def _read_in(self, prefix: Prefix) -> None:
        self._read.append(prefix)
        await self._engine.cache_prefix(prefix, ttl_s=_KEPT_S)

    async def _read_timed(self, prefix: Prefix) -> float:
        with self._clock.reading() as watch:
            await self._read_in(prefix)
        self._clock.has_read(watch, prefix.num_tokens)
        return watch.seconds

    async def _answer_together(self, prefix: Prefix, at_once: int) -> None:
        await asyncio.gather(*(self._answer(prefix, is_kept=one < _MOST_KEPT) for one in range(at_once)))

    async def _answer(self, prefix: Prefix, num_tokens: int = _ANSWER_TOKENS, *, is_kept: bool) -> None:
        """One that is broken off tells as far as it came."""
        prompt = Prompt(prefix, tuple(random.choices(self._ids, k=_QUESTION_TOKENS)))
        sampling = Sampling(max_tokens=num_tokens, min_tokens=num_tokens, ignore_eos=True, priority=_PRIORITY)
        with self._clock.running() as watch:
            try:
                async with aclosing(streamed(self._engine, prompt, sampling)) as stream:
                    async for piece in stream:
                        if isinstance(piece, Finish):
                            break
                        watch.came(len(piece.token_ids))
            finally:
                watch.end()
                if is_kept:
                    self._clock.has_answered(
                        watch, tokens=watch.num_tokens, is_cut=True, question_tokens=_QUESTION_TOKENS, kind=MEASURED
                    )
