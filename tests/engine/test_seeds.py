"""What the posts on Qwen3-4B say of vLLM's own server, each shown by a count on real vLLM; one start for all of it."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import eventually

from engine.base import Delta, Finish, Prefix, Prompt, Sampling
from engine.client import Client
from engine.fit import fit_folder
from engine.lease import Lease, connect
from engine.profiles import PROFILES
from engine.server import EngineSettings

pytestmark = pytest.mark.engine

BLOCK_SIZE, STEP_TOKENS, NUM_SEQS = 32, 256, 2


def settings_for(model_folder: Path, state_dir: Path, **changes: Any) -> EngineSettings:
    values: dict[str, Any] = {
        "model": str(model_folder), "state_dir": state_dir, "cache_dir": state_dir / "models", "device": "cpu",
        "kv_cache_gib": 0.5, "max_model_len": 4096, "max_num_batched_tokens": STEP_TOKENS, "max_num_seqs": NUM_SEQS,
    }  # fmt: skip
    return EngineSettings(**(values | changes))


@pytest.fixture(scope="module")
def settings(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> EngineSettings:
    return settings_for(model_folder, tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def lease(settings: EngineSettings) -> Iterator[Lease]:
    """Steps of 256 tokens and two sequences at once, so that what is queued and what is cut can be counted."""
    with connect(settings) as held:
        yield held
        held.close()


@pytest.fixture
async def client(lease: Lease) -> AsyncIterator[Client]:
    made = Client(lease.engine)
    yield made
    await made.close()


def get(lease: Lease, route: str, body: dict[str, Any] | None = None) -> str:
    headers = {"Content-Type": "application/json"}
    if token := getattr(lease.engine, "token", None):
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(lease.engine.url + route, data, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def metric(lease: Lease, name: str) -> float:
    found = re.findall(rf"^vllm:{name}\{{[^}}]*\}} (\S+)$", get(lease, "/metrics"), re.MULTILINE)
    assert found, name
    return sum(float(value) for value in found)


def ids(seed: str, count: int) -> tuple[int, ...]:
    return tuple(random.Random(seed).choices(range(100, 40_000), k=count))


async def ask(client: Client, token_ids: tuple[int, ...], **sampling: Any) -> Finish:
    events = [event async for event in client.generate(Prompt(Prefix(token_ids), (7,)), Sampling(**sampling))]
    assert isinstance(events[-1], Finish)
    return events[-1]


def test_s8_pool_is_what_vllm_reports(lease: Lease, settings: EngineSettings, model_folder: Path) -> None:
    """To the block: the weights and the machine play no part on a CPU."""
    fitted = fit_folder(settings, PROFILES["cpu"], model_folder)
    assert fitted is not None
    assert fitted.pool.num_blocks == lease.engine.num_blocks == 728
    assert fitted.pool.block_size == lease.engine.block_size == BLOCK_SIZE


async def test_s12_fp8_keys_and_values_hold_twice_the_tokens(model_folder: Path, tmp_path: Path) -> None:
    """As reckoned, to the block, on an engine of its own; and what is read in fp8 is found again."""
    settings = settings_for(model_folder, tmp_path, kv_cache_dtype="fp8")
    fitted = fit_folder(settings, PROFILES["cpu"], model_folder)
    assert fitted is not None
    with await asyncio.to_thread(connect, settings) as held:
        assert held.engine.num_blocks == fitted.pool.num_blocks == 2 * 728
        client = Client(held.engine)
        answers = [await ask(client, ids("fp8", 400), max_tokens=4) for _ in range(2)]
        assert [answer.receipt.cached_tokens for answer in answers] == [0, 400 // BLOCK_SIZE * BLOCK_SIZE]
        await client.close()
        held.close()


async def test_s9_keys_and_values_lie_in_pages(lease: Lease, client: Client) -> None:
    """A running request holds the whole pages that its tokens need and no more; only whole pages are found again."""
    token_ids = ids("pages", 99)
    stream = client.generate(Prompt(Prefix(token_ids), (7,)), Sampling(max_tokens=60, min_tokens=60, ignore_eos=True))
    assert isinstance(await anext(stream), Delta)
    used = await asyncio.to_thread(metric, lease, "kv_cache_usage_perc")
    num_pages = used * ((lease.engine.num_blocks or 0) - 1)
    assert num_pages == pytest.approx(round(num_pages), abs=0.01)
    assert math.ceil(100 / BLOCK_SIZE) <= round(num_pages) <= math.ceil(160 / BLOCK_SIZE)
    async for _ in stream:
        pass
    assert (await ask(client, token_ids, max_tokens=1)).receipt.cached_tokens == 3 * BLOCK_SIZE


async def test_s9_long_prompt_is_read_in_chunks(client: Client) -> None:
    """2,001 tokens beside a running answer take eight steps of 256, and the answer gets its token in each of them."""
    num_steps = math.ceil(2_001 / (STEP_TOKENS - 1))
    sampling = Sampling(max_tokens=1_500, min_tokens=1_500, ignore_eos=True)
    stream = client.generate(Prompt(Prefix(ids("beside", 50)), (7,)), sampling)
    assert isinstance(await anext(stream), Delta)
    reading = asyncio.create_task(ask(client, ids("chunks", 2_000), max_tokens=1))
    await asyncio.sleep(0)  # its request leaves before the counting begins
    num_tokens = 0
    while not reading.done():
        event = await anext(stream)
        assert isinstance(event, Delta)
        num_tokens += len(event.token_ids)
    assert num_tokens >= num_steps - 1  # the first may have been drawn before the reading began
    assert (await reading).receipt.cached_tokens == 0
    await stream.aclose()


async def test_s9_request_joins_a_running_batch_and_leaves_it(lease: Lease, client: Client) -> None:
    """A short answer begins and ends while a long one runs: nobody waits for a batch to be over."""
    sampling = Sampling(max_tokens=1_500, min_tokens=1_500, ignore_eos=True)
    stream = client.generate(Prompt(Prefix(ids("long", 50)), (7,)), sampling)
    assert isinstance(await anext(stream), Delta)
    short = await ask(client, ids("short", 50), max_tokens=4, min_tokens=4, ignore_eos=True)
    assert short.receipt.output_tokens == 4
    assert await asyncio.to_thread(metric, lease, "num_requests_running") == 1
    await stream.aclose()
    assert await asyncio.to_thread(eventually, lambda: metric(lease, "num_requests_running") == 0)


async def test_s9_shared_system_prompt_is_read_once(client: Client) -> None:
    """Two documents behind one instruction of five pages: the second finds those five and nothing else."""
    system = ids("system", 5 * BLOCK_SIZE)
    first = await ask(client, system + ids("one document", 300), max_tokens=1)
    second = await ask(client, system + ids("another document", 300), max_tokens=1)
    assert (first.receipt.cached_tokens, second.receipt.cached_tokens) == (0, 5 * BLOCK_SIZE)


async def test_s9_lower_number_is_served_first(lease: Lease, client: Client) -> None:
    """With both places taken, the later question with the lower number overtakes the earlier one."""
    busy = Sampling(max_tokens=2_000, min_tokens=2_000, ignore_eos=True)
    streams = [client.generate(Prompt(Prefix(ids(f"busy {n}", 40)), (7,)), busy) for n in range(NUM_SEQS)]
    for stream in streams:
        assert isinstance(await anext(stream), Delta)
    order: list[int] = []

    async def queued(priority: int) -> None:
        await ask(client, ids(f"queued {priority}", 40), max_tokens=8, priority=priority)
        order.append(priority)

    tasks = []
    for num_waiting, priority in enumerate((9, 1), start=1):
        tasks.append(asyncio.create_task(queued(priority)))
        assert await asyncio.to_thread(eventually, lambda: metric(lease, "num_requests_waiting") == num_waiting)  # noqa: B023
    await streams[0].aclose()  # one place is free: the two take it one after the other
    await asyncio.gather(*tasks)
    assert order == [1, 9]
    await streams[1].aclose()


def test_s5_server_is_healthy_says_so_in_its_log_and_speaks_openai(lease: Lease, settings: EngineSettings) -> None:
    """Its health route, the log's own words, the model by its served name, a completion and a chat."""
    assert get(lease, "/health") == ""
    log = (settings.state_dir / "engine.log").read_text(errors="replace")
    assert "Application startup complete." in log
    model = lease.engine.model
    assert [card["id"] for card in json.loads(get(lease, "/v1/models"))["data"]] == [model]
    asked = {"model": model, "max_tokens": 3, "ignore_eos": True}
    completion = json.loads(get(lease, "/v1/completions", asked | {"prompt": "The ferry"}))
    assert completion["usage"]["completion_tokens"] == 3
    chat = json.loads(get(lease, "/v1/chat/completions", asked | {"messages": [{"role": "user", "content": "Ferry?"}]}))
    assert chat["choices"][0]["message"]["role"] == "assistant"
    assert chat["usage"]["completion_tokens"] == 3
