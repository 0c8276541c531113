"""Decides how a prefix is read for its questions: once, not where it is held, and what that is counted as."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.batch.blocks import Blocks, reading
from app.batch.link import EngineGoneError, Link
from app.batch.plan import Group
from app.batch.pool import Pool
from app.batch.progress import Tally
from app.batch.timing.clock import Clock
from app.problem import Problem, tell

if TYPE_CHECKING:
    from app.batch.choice import Choice
    from app.reader import Reader


class Reads:
    """The reads of one batch.

    Args:
        apart: See `BatchOptions.apart`.
        tally, clock: Are told of each read.
    """

    def __init__(self, link: Link, pool: Pool, apart: str, tally: Tally, clock: Clock) -> None:
        self._link = link
        self._pool = pool
        self._apart = apart
        self._tally = tally
        self._clock = clock
        self._blocks = Blocks(pool.block_size)

    async def read(self, group: Group) -> bool | Problem:
        """Has the group's prefix read: whether it had to be, or what went wrong, to be told of each of its questions.

        Raises:
            EngineGoneError: There is no engine any more.
        """
        resident = await asyncio.to_thread(self._pool.resident)
        held = (resident or {}).get(group.prefix, 0)
        try:
            # What it shares with those before it, the instructions at least, is not read again.
            fresh = await asyncio.to_thread(self._not_known, group)
            if self._pool.is_warm(group.num_tokens, held):
                return False
            with self._clock.reading() as watch:
                await self._link.do(lambda reader: _read(reader, group.choices[0], self._apart))
        except EngineGoneError:
            raise
        except Exception as error:
            problem = tell(error)
            if problem is None:
                raise
            return problem
        self._tally.num_retries = self._link.num_retries
        if resident is None and group.is_again:
            return False  # it is there still, as far as can be told
        missing = self._pool.whole(group.num_tokens) - held + 1
        num_read = missing if group.is_again else min(missing, fresh)
        self._tally.num_reads += 1
        self._tally.read_tokens += num_read
        self._clock.has_read(watch, num_read)
        return True

    def _not_known(self, group: Group) -> int:
        choice = group.choices[0]
        prefix = self._link.reader.read(choice.plan, choice.kb, self._apart).prefix
        return self._blocks.computed(prefix.namespace, reading(prefix.token_ids, self._pool.block_size))


async def _read(reader: Reader, choice: Choice, apart: str) -> None:
    read = await asyncio.to_thread(reader.read, choice.plan, choice.kb, apart)
    await reader.engine.cache_prefix(read.prefix)
