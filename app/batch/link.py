"""Decides how a batch outlives its engine: what failed is tried again, and an engine that is gone is found or started.

However many answers break with an engine, one of them waits for the next one, for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from engine.base import EngineError

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.batch.options import BatchOptions
    from app.engines import Report
    from app.reader import Reader

T = TypeVar("T")

_GONE = "engine_unreachable"
# What another try may mend; all else is the question's own.
_PASSING = {_GONE, "engine_failed", "unknown_prefix"}
_LONGEST_PAUSE_S = 30.0


class EngineGoneError(Exception):
    """No engine came back: nothing more of the batch can be asked.

    Args:
        cause: The last thing that was said about it.
    """

    def __init__(self, cause: EngineError) -> None:
        super().__init__(cause.message)
        self.cause = cause


class Link:
    """A batch's way to the engine.

    Attributes:
        num_retries: How often something was tried again.
        num_restarts: How often the engine was found or started again.
    """

    def __init__(self, assistant: Assistant, reader: Reader, options: BatchOptions, report: Report) -> None:
        self._assistant = assistant
        self._plain = reader
        self._options = options
        self._report = report
        self._mending = asyncio.Lock()
        self.reader = self._instructed(reader)
        self.num_retries = self.num_restarts = 0

    async def do(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        """Does `work` with the engine in use; again, where the engine failed.

        Raises:
            EngineGoneError: The engine is gone for good.
            EngineError: What it said the last time; what `work` raises itself.
        """
        attempt = 0
        while True:
            reader = self.reader
            try:
                return await work(reader)
            except EngineError as error:
                if error.code not in _PASSING or attempt >= self._options.retries:
                    raise
                attempt += 1
                self.num_retries += 1
                if error.code == _GONE:
                    await self._mend(reader)
                else:
                    await asyncio.sleep(self._pause_s(attempt))

    async def _mend(self, lost: Reader) -> None:
        async with self._mending:
            if self.reader is not lost:
                return  # somebody else has waited for it
            self._report("The engine is gone; waiting for it, or starting it again.")
            for attempt in range(1, self._options.retries + 1):
                await asyncio.sleep(self._pause_s(attempt))
                try:
                    self._plain = await self._assistant.engines.reconnect(self._plain, self._report)
                except EngineError as error:
                    cause = error
                    continue
                self.reader = self._instructed(self._plain)
                self.num_restarts += 1
                return
            raise EngineGoneError(cause)

    def _instructed(self, reader: Reader) -> Reader:
        instructions = self._options.seamed_instructions
        return reader.instructed(instructions) if instructions else reader

    def _pause_s(self, attempt: int) -> float:
        return float(min(self._options.backoff_s * 2 ** (attempt - 1), _LONGEST_PAUSE_S))
