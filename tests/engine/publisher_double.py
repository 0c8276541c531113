"""vLLM's publisher of KV events as its sockets behave: PUB, and a ROUTER that sends again what it has kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import zmq.asyncio

from engine.events import END, Source
from engine.holdings import Batch, Stored


def decode(number: int, payload: bytes) -> Batch:
    time_s, ids = json.loads(payload)
    return Batch(number, time_s, (Stored(tuple(ids)),))


class Publisher:
    """Publishes batches of stored ids.

    Attributes:
        num_replays: How often it was asked to send again.
    """

    def __init__(self, folder: Path, num_kept: int = 1000) -> None:
        self.source = Source(f"ipc://{folder}/live", False, f"ipc://{folder}/replay")
        self.num_replays = 0
        self._num_kept = num_kept
        self._sent: list[bytes] = []
        context = zmq.asyncio.Context.instance()
        self._live, self._replay = context.socket(zmq.XPUB), context.socket(zmq.ROUTER)
        self._live.bind(self.source.live)
        self._replay.bind(str(self.source.replay))

    async def publish(self, *ids: int, lost: bool = False) -> None:
        """`lost`: it is kept for a replay, but no subscriber gets it."""
        number = len(self._sent)
        self._sent.append(json.dumps([float(number), ids]).encode())
        if not lost:
            await self._live.send_multipart([b"", number.to_bytes(8, "big"), self._sent[-1]])

    async def subscribed(self) -> None:
        """Returns when a subscription has reached us: from then on what is published comes live."""
        async with asyncio.timeout(20):
            while not (await self._live.recv()).startswith(b"\x01"):
                pass

    async def serve(self) -> None:
        while True:
            client, _, start = await self._replay.recv_multipart()
            self.num_replays += 1
            first = max(int.from_bytes(start, "big"), len(self._sent) - self._num_kept)
            for number in range(first, len(self._sent)):
                message = [client, b"", b"", number.to_bytes(8, "big"), self._sent[number]]
                await self._replay.send_multipart(message)
            await self._replay.send_multipart([client, b"", b"", END.to_bytes(8, "big", signed=True), b""])

    def close(self) -> None:
        self._live.close(linger=0)
        self._replay.close(linger=0)


@contextlib.asynccontextmanager
async def publishing(folder: Path, num_kept: int = 1000) -> AsyncIterator[Publisher]:
    publisher = Publisher(folder, num_kept)
    task = asyncio.create_task(publisher.serve())
    try:
        yield publisher
    finally:
        task.cancel()
        publisher.close()
