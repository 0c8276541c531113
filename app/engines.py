"""Decides which engine is asked now: found or started when first needed, and the next one where it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.reader import Reader
from app.settings import Settings

if TYPE_CHECKING:
    from app.power import Power
    from ingest.corpus import Corpus

# What an engine says, or is said of it, while it ends.
ENDING = frozenset({"engine_unreachable", "engine_failed"})
# An engine's connections may break a moment before it is seen to have ended.
ENDS_S = 1.0

Report = Callable[[str], None]
"""Takes one sentence about what is going on ("Loading the model ...")."""


class Engines:
    """The engine in use, one at a time, with what lays out prompts for it. For one event loop.

    Args:
        power: What finds or starts one.
        ended: Called where the one in use is let go.

    Attributes:
        report: Takes what is going on where a question's own is not given.
    """

    def __init__(self, settings: Settings, corpus: Corpus, power: Power, ended: Callable[[], None]) -> None:
        self._settings = settings
        self._corpus = corpus
        self._power = power
        self._ended = ended
        self._reader: Reader | None = None
        self._starting = asyncio.Lock()
        self.report: Report = lambda sentence: None

    @property
    def now(self) -> Reader | None:
        """The one in use; None before the first is needed, and while it is let go."""
        return self._reader

    async def ready(self, report: Report | None = None) -> Reader:
        """The one in use, found or started first; the next one where it has ended.

        Raises:
            EngineError: One sentence: no weights, port taken, out of memory, not ready in time.
        """
        async with self._starting:
            if self._reader is not None and self._power.has_ended():
                await self._let_go(self._reader)
            if self._reader is None:
                engine, tokenizer = await self._power.connect(report or self.report)
                self._reader = await asyncio.to_thread(Reader.open, self._settings, self._corpus, engine, tokenizer)
            return self._reader

    async def reconnect(self, lost: Reader, report: Report | None = None) -> Reader:
        """As `ready`, once `lost`'s engine no longer answers; one that was started here is started again.

        Raises:
            EngineError: As `ready`.
        """
        async with self._starting:
            if self._reader is lost:
                await self._let_go(lost)
        return await self.ready(report)

    async def let_go(self) -> None:
        """Whoever asks next looks for an engine anew."""
        async with self._starting:
            if self._reader is not None:
                await self._let_go(self._reader)

    async def has_lost(self, reader: Reader) -> bool:
        """Whether `reader`'s engine is not the one in use any more, or has ended or is about to."""
        return self._reader is not reader or await asyncio.to_thread(self._power.has_ended, ENDS_S)

    async def close(self, linger: bool) -> None:
        """Lets it go: it stays for `keep_alive_s` if `linger`, else one started here stops at once."""
        if self._reader is not None:
            await asyncio.to_thread(self._reader.close)
            self._reader = None
        await self._power.release(linger)

    async def _let_go(self, lost: Reader) -> None:
        self._reader = None
        self._ended()
        await asyncio.to_thread(lost.close)
        await self._power.release(linger=True)
