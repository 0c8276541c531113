"""Decides how long an open socket stays: as long as the session in which it was opened goes on.

A page holds one socket for hours. Whoever is disabled, changes roles or logs out elsewhere loses it within a second,
an answer that is being written to it included.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOK_S = 1.0
ENDED = 1008

Going = Callable[[], frozenset[tuple[str, int]]]
"""Gives the sessions that go on, as (name, number). Blocks."""


class Sockets:
    """All open sockets of people. One question to the records a second, however many there are."""

    def __init__(self, going: Going) -> None:
        self._going = going
        self._open: dict[asyncio.Event, tuple[str, int]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, session: tuple[str, int]) -> None:
        """As `app`, until it ends or the session does."""
        ended = asyncio.Event()
        self._open[ended] = session
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        reading: asyncio.Task[Message] | None = None

        async def until_ended() -> Message:
            nonlocal reading
            reading = reading or asyncio.ensure_future(receive())
            over = asyncio.ensure_future(ended.wait())
            try:
                await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
            if ended.is_set():
                return {"type": "websocket.disconnect", "code": ENDED}
            message, reading = await reading, None
            return message

        async def if_going(message: Message) -> None:
            if not ended.is_set():
                await send(message)

        try:
            await app(scope, until_ended, if_going)
        finally:
            del self._open[ended]
            if reading is not None:
                reading.cancel()
            if ended.is_set():
                with contextlib.suppress(Exception):  # the other end may have gone first
                    await send({"type": "websocket.close", "code": ENDED})

    async def _look(self) -> None:
        while self._open:
            await asyncio.sleep(LOOK_S)
            going = await run_in_threadpool(self._going)
            for ended, session in self._open.items():
                if session not in going:
                    ended.set()
