"""The feed: what was published before it, what comes live, what was lost on the way, over real sockets."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq.asyncio
from publisher_double import Publisher, decode, publishing

from engine import events
from engine.base import EngineError
from engine.events import Feed, Source, _source, find_sources
from engine.holdings import Batch, Holdings


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="kv") as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def never_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look that follows every start would close gaps that something else has to close."""
    monkeypatch.setattr(events, "_SUBSCRIBED_AFTER_S", 3600.0)


class Reader:
    """A feed and a way to wait for what it has read."""

    def __init__(self, source: Source, read: Any = decode) -> None:
        self.held = Holdings(1000)
        self._changed = asyncio.Event()
        self.feed = Feed(source, self.held, read, self._changed.set)

    async def until_resident(self, num_blocks: int | None) -> None:
        async with asyncio.timeout(20):
            while self.held.resident_blocks != num_blocks:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def reading(source: Source, read: Any = decode) -> AsyncIterator[Reader]:
    reader = Reader(source, read)
    await reader.feed.start()
    try:
        yield reader
    finally:
        await reader.feed.stop()


async def published_live(publisher: Publisher, reader: Reader, expected: int) -> None:
    """Until the subscription has reached the publisher nothing comes live."""
    await publisher.subscribed()
    await publisher.publish(500)
    await reader.feed.confirm()
    await reader.until_resident(expected)


async def test_what_was_published_before_comes_first_and_then_what_is_new(folder: Path) -> None:
    """A server's plugin begins to read after the core has begun to publish."""
    async with publishing(folder) as publisher:
        await publisher.publish(1, 2)
        await publisher.publish(3)
        async with reading(publisher.source) as reader:
            assert (reader.held.run((1, 2, 3)), reader.held.next_number) == (3, 2)
            await published_live(publisher, reader, 4)
            await publisher.publish(4)
            await reader.until_resident(5)
            assert reader.held.losses == 0


async def test_lost_batch_is_asked_for_again(folder: Path) -> None:
    """The next one shows the gap; the replay closes it without anybody's doing."""
    async with publishing(folder) as publisher, reading(publisher.source) as reader:
        await published_live(publisher, reader, 1)
        replays = publisher.num_replays
        await publisher.publish(1, lost=True)
        await publisher.publish(2)
        await reader.until_resident(3)
        assert (reader.held.run((1, 2)), reader.held.losses) == (2, 0)
        assert publisher.num_replays > replays


async def test_batch_that_the_publisher_no_longer_has_makes_all_unknown(folder: Path) -> None:
    """It keeps one batch, two are lost."""
    async with publishing(folder, num_kept=1) as publisher, reading(publisher.source) as reader:
        await published_live(publisher, reader, 1)
        await publisher.publish(1, lost=True)
        await publisher.publish(2, lost=True)
        await publisher.publish(3)
        await reader.until_resident(None)
        assert reader.held.why_unknown == "batches 1 to 2 of the KV events were lost"


async def test_confirm_brings_what_was_lost_without_a_sign(folder: Path) -> None:
    """The last batch is lost: no later one tells."""
    async with publishing(folder) as publisher, reading(publisher.source) as reader:
        await published_live(publisher, reader, 1)
        await publisher.publish(1, lost=True)
        await reader.feed.confirm()
        assert reader.held.resident_blocks == 2


async def test_start_is_looked_at_again_when_the_subscription_has_arrived(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was published between the first look and the subscription would be missing until the next batch."""
    monkeypatch.setattr(events, "_SUBSCRIBED_AFTER_S", 0.01)
    async with publishing(folder) as publisher, reading(publisher.source) as reader:
        await publisher.publish(1, lost=True)
        await reader.until_resident(1)
        assert reader.held.next_number == 1


async def test_message_that_can_not_be_read_is_no_end_and_shows_no_text(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another version's event: what is held is unknown, the reason names no part of the message."""

    def refuse(number: int, payload: bytes) -> Batch:
        raise ValueError(f"secret {payload!r}")

    async with publishing(folder) as publisher:
        await publisher.publish(1)
        async with reading(publisher.source, refuse) as reader:
            assert reader.held.why_unknown == "a message of the KV events could not be read (ValueError)"
            assert "secret" not in caplog.text


async def test_reader_binds_where_the_publisher_connects(folder: Path) -> None:
    """As vLLM does for an address without a wildcard; without a replay socket the first batch has to be number 0."""
    address = f"ipc://{folder}/bound"
    async with reading(Source(address, True, None)) as reader:
        live = zmq.asyncio.Context.instance().socket(zmq.PUB)
        live.connect(address)
        try:
            for number in range(2):
                # Sent until it is read: a subscription takes a moment, and a repeated batch changes nothing.
                async with asyncio.timeout(20):
                    while reader.held.next_number == number:
                        await live.send_multipart([b"", number.to_bytes(8, "big"), b"[0.0, [%d]]" % number])
                        await asyncio.sleep(0.01)
        finally:
            live.close(linger=0)
        assert (reader.held.resident_blocks, reader.held.why_unknown) == (2, None)


async def test_address_that_is_taken_is_one_sentence(folder: Path) -> None:
    """Somebody else reads there already."""
    source = Source(f"tcp://127.0.0.1:{await taken_port()}", True, None)
    with pytest.raises(EngineError, match="KV events can't be read at tcp://127") as caught:
        await Reader(source).feed.start()
    assert caught.value.code == "events_off"


async def taken_port() -> int:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("live", "reader"),
    [
        ("tcp://*:5557", Source("tcp://127.0.0.1:5557", False, None)),
        ("tcp://[::]:5557", Source("tcp://[::1]:5557", False, None)),
        ("tcp://127.0.0.1:5557", Source("tcp://127.0.0.1:5557", True, None)),
        ("ipc:///run/kv", Source("ipc:///run/kv", False, None)),
    ],
)
def test_reader_meets_the_publisher_at_its_address(live: str, reader: Source) -> None:
    """vLLM binds where the address has a wildcard or is a path, and connects otherwise."""
    assert _source(live, None, "") == reader


@pytest.mark.parametrize(
    "config", [None, SimpleNamespace(enable_kv_cache_events=False, publisher="null", endpoint="tcp://*:5557")]
)
def test_server_without_events_is_one_sentence(config: SimpleNamespace | None) -> None:
    """Off by its flags."""
    with pytest.raises(EngineError) as caught:
        find_sources(SimpleNamespace(kv_events_config=config))
    assert caught.value.code == "events_off"
