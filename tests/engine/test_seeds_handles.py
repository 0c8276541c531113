"""What the posts call `cache_prefix`, `prefix_pos` and `free_prefix_cache`, sessions and TTLs, under their true names.

S1: a document is read once for all who ask. S2: a session's end frees what came by it. S3: times, use and pins decide
what stays. The first two are the same calls on the fake and on a real engine.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from processes import eventually
from shared import SharedEngine
from virtual_clock import run
from whole import Whole, opened

from engine.base import Engine, Finish, Prefix, Prompt, Receipt, Sampling
from engine.client import Client
from engine.fake import FakeEngine
from engine.look import look
from engine.view import PrefixView

NUM_TOKENS, WHOLE_BLOCKS = 1000, 992


def document(seed: str, namespace: str = "kb") -> Prefix:
    return Prefix(tuple(random.Random(seed).choices(range(100, 40_000), k=NUM_TOKENS)), namespace, f"kb/{seed}/1")


async def ask(engine: Engine, prefix: Prefix, tail: int) -> Receipt:
    events = [event async for event in engine.generate(Prompt(prefix, (28, tail)), Sampling(max_tokens=3))]
    assert isinstance(events[-1], Finish)
    return events[-1].receipt


async def one_document_for_several_users(engine: Engine) -> None:
    """Read once, for the first of three; each of the others computes his own two tokens and what fills no block."""
    prefix = document("shared")
    receipts = [await ask(engine, prefix, user) for user in range(3)]
    assert [receipt.cached_tokens for receipt in receipts] == [0, WHOLE_BLOCKS, WHOLE_BLOCKS]
    assert [receipt.cold_because for receipt in receipts] == ["first_use", None, None]
    assert {receipt.prompt_tokens for receipt in receipts} == {NUM_TOKENS + 2}
    assert {receipt.prefix for receipt in receipts} == {prefix.id}
    elsewhere = document("shared", "another base")
    assert [(await ask(engine, elsewhere, user)).cached_tokens for user in range(2)] == [0, WHOLE_BLOCKS]


async def warmed_then_freed(engine: Engine) -> None:
    """`cache_prefix` returns with a warm handle, `generate` reuses it, after `free_prefix` it is cold: all by name."""
    prefix = document("named")
    handle = await engine.cache_prefix(prefix)
    assert (handle.id, handle.state, handle.resident_tokens) == (prefix.id, "warm", WHOLE_BLOCKS)
    assert (await ask(engine, prefix, 1)).cached_tokens == WHOLE_BLOCKS
    await engine.free_prefix(prefix)
    assert (await ask(engine, prefix, 2)).cached_tokens == 0


async def two_chats_on_one_document(engine: Engine) -> None:
    """Gone with the second chat, not with the first; its keys and values are found again by the next one."""
    prefix = document("chatted")
    for session in ("chat a", "chat b"):
        await engine.cache_prefix(prefix, session=session)
    for session, known in (("chat a", {prefix.id}), ("chat b", set())):
        await engine.release_session(session)
        assert await handles_of(engine) == known
    assert (await ask(engine, prefix, 1)).cached_tokens == WHOLE_BLOCKS


async def handles_of(engine: Engine) -> set[str]:
    if isinstance(engine, FakeEngine):
        return {handle.id for handle in engine.handles}
    assert isinstance(engine, Client)
    return {one.id for one in await views(engine)}


async def views(client: Client) -> tuple[PrefixView, ...]:
    seen = await asyncio.to_thread(look, client.running.url, client.running.token)
    assert seen is not None
    return seen.prefixes


async def test_s1_several_users_reuse_what_the_first_one_read() -> None:
    """To the block; another knowledge base reads it anew."""
    await one_document_for_several_users(FakeEngine())


async def test_s1_a_document_is_cached_used_and_freed_by_name() -> None:
    """The calls are `cache_prefix`, `generate` and `free_prefix`."""
    await warmed_then_freed(FakeEngine())


async def test_s2_a_prefix_goes_with_its_last_session() -> None:
    """Bound to two chats."""
    await two_chats_on_one_document(FakeEngine())


def in_a_pool_of(num_tokens: int, folder: Path, scene: Any) -> None:
    async def whole() -> None:
        async with opened(folder, num_tokens) as server:
            await scene(server)

    work: Coroutine[Any, Any, None] = whole()
    run(work)


def ids(number: int, num_tokens: int = 320) -> list[int]:
    return list(range(number * 1000, number * 1000 + num_tokens))


def test_s3_each_use_begins_the_time_to_live_anew(tmp_path: Path) -> None:
    """60 seconds: asked after 50 it is there after 100, and gone 60 seconds after its last question; others stay."""

    async def scene(server: Whole) -> None:
        for_ever = await server.register(ids(1))
        handle = await server.register(ids(2), ttl_s=60)
        await asyncio.sleep(50)
        await server.ask(handle)
        await asyncio.sleep(59)
        assert await server.look(handle) is not None
        await server.ask(handle)
        await asyncio.sleep(61)
        assert await server.look(handle) is None
        seen = await server.look(for_ever)
        assert seen is not None
        assert seen["expires_at"] is None
        again = await server.register(ids(2))
        assert (await server.ask(again))["cached_tokens"] == 320  # what is cached goes by use, not by time

    in_a_pool_of(2048, tmp_path, scene)


def test_s3_the_least_recently_used_makes_room(tmp_path: Path) -> None:
    """A pool for three: the first one, asked again, outlives the second and the third."""

    async def scene(server: Whole) -> None:
        often, second, third, fourth, fifth = [await server.register(ids(number)) for number in range(5)]
        for handle in (often, second, third, often, fourth):
            await server.ask(handle)
        assert await server.resident(often, third, fourth) == [320, 320, 320]
        assert (await server.resident(second))[0] < 320
        for handle in (often, fifth):
            await server.ask(handle)
        assert await server.resident(often, second, fourth, fifth) == [320, 0, 320, 320]
        assert (await server.resident(third))[0] < 320

    in_a_pool_of(1024, tmp_path, scene)


@pytest.mark.parametrize(("pin", "left"), [(True, 320), (False, 0)])
def test_s3_a_pinned_prefix_stays_whatever_passes_through(pin: bool, left: int, tmp_path: Path) -> None:
    """Twelve documents in a pool for three; nobody asks about the pinned one. Without the pin nothing is left of it."""

    async def scene(server: Whole) -> None:
        handle = await server.register(ids(0), pin=pin)
        await server.ask(handle)
        for number in range(1, 13):
            await server.ask(await server.register(ids(number)))
        assert await server.resident(handle) == [left]

    in_a_pool_of(1024, tmp_path, scene)


@pytest.fixture
async def client(shared_engine: SharedEngine) -> AsyncIterator[Client]:
    """Real vLLM, asked through our client; nothing is registered there."""
    shared_engine.free_all()
    made = Client(shared_engine.lease.engine)
    yield made
    await made.close()


@pytest.mark.engine
async def test_s1_on_a_real_engine_users_of_one_base_share_and_two_bases_do_not(client: Client) -> None:
    """The second user of a base is warm, the second base is cold."""
    await one_document_for_several_users(client)


@pytest.mark.engine
async def test_s1_on_a_real_engine_a_document_is_cached_used_and_freed_by_name(client: Client) -> None:
    """The same calls through our routes."""
    await warmed_then_freed(client)


@pytest.mark.engine
async def test_s2_on_a_real_engine_a_prefix_goes_with_its_last_session(client: Client) -> None:
    """And the next chat is as warm as they were."""
    await two_chats_on_one_document(client)


@pytest.mark.engine
async def test_s3_on_a_real_engine_times_and_pins_are_kept(client: Client) -> None:
    """One that lives for two seconds goes by itself; a pinned one is told as pinned, and its use is counted."""
    pinned, brief = document("pinned"), document("brief")
    await client.cache_prefix(pinned, pin=True)
    await client.cache_prefix(brief, ttl_s=2)
    assert (await ask(client, pinned, 1)).cached_tokens == WHOLE_BLOCKS

    def is_gone() -> bool:
        seen = look(client.running.url, client.running.token)
        return seen is not None and brief.id not in {one.id for one in seen.prefixes}

    assert await asyncio.to_thread(eventually, is_gone)
    assert [(one.id, one.pinned, one.hits, one.state) for one in await views(client)] == [(pinned.id, True, 1, "warm")]
