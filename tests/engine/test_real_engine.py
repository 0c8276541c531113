"""Real vLLM with SmolLM2 on the CPU: the same cache as the fake's, aborts, and no process left whatever is killed."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from processes import Hold, eventually, holding, pids_of_group

from engine.base import Delta, EngineError, Finish, Prefix, Prompt, Receipt, Sampling
from engine.blocks import BlockCache
from engine.client import Client
from engine.lease import Lease, connect, find
from engine.ledger import Ledger
from engine.prompt import Layout, SectionText
from engine.record import read_record
from engine.salts import Salts
from engine.server import EngineSettings
from engine.tokenizer import Tokenizer

pytestmark = pytest.mark.engine

NUM_BLOCKS, BLOCK_SIZE, MAX_MODEL_LEN = 76, 32, 2304


def settings_for(model_folder: Path, state_dir: Path, **changes: Any) -> EngineSettings:
    values: dict[str, Any] = {
        "model": str(model_folder), "state_dir": state_dir, "cache_dir": state_dir / "models", "device": "cpu",
        "kv_cache_gib": 0.5, "max_model_len": MAX_MODEL_LEN, "num_gpu_blocks_override": NUM_BLOCKS, "dev_mode": True,
    }  # fmt: skip
    return EngineSettings(**(values | changes))


@pytest.fixture(scope="module")
def lease(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lease]:
    """One engine for the tests that do not kill it; its pool holds 75 blocks of 32 tokens."""
    with connect(settings_for(model_folder, tmp_path_factory.mktemp("engine"))) as held:
        yield held
        held.close()


def reset(lease: Lease) -> None:
    """Empties the cache, by a route that only a developer's engine has."""
    headers = {"Authorization": f"Bearer {lease.engine.token}"}
    request = urllib.request.Request(f"{lease.engine.url}/reset_prefix_cache", method="POST", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


def num_running(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return sum(float(n) for n in re.findall(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$", text, re.M))


async def read(client: Client, prompt: Prompt, max_tokens: int = 8) -> Finish:
    events = [event async for event in client.generate(prompt, Sampling(max_tokens=max_tokens))]
    assert isinstance(events[-1], Finish)
    return events[-1]


async def test_what_the_engine_says_next_is_what_it_holds_for_likeliest(
    lease: Lease, model_folder: Path, tmp_path: Path
) -> None:
    """Of its own three ids each chance is told; another id in the first one's place is less likely."""
    layout = Layout(Tokenizer(model_folder))
    client = Client(lease.engine, Ledger(tmp_path / "ledger.sqlite"), salts=Salts(tmp_path))
    # A namespace of its own: another test counts what is cached of the instructions.
    prompt = layout.ask(layout.prefix((), "likely"), "What is kept in a locker?")
    said = (await read(client, prompt, max_tokens=3)).token_ids
    asked = Prefix(prompt.token_ids, "likely")
    chances = await client.log_probabilities(Prompt(asked, said))
    others = await client.log_probabilities(Prompt(asked, (said[0] + 1, *said[1:])))
    assert len(chances) == len(others) == 3
    assert 0 > chances[0] > others[0]
    await client.close()


async def test_second_question_reuses_at_least_95_percent(lease: Lease, model_folder: Path, tmp_path: Path) -> None:
    """A section of about 2,000 tokens: the second prompt is read from the cache, and so is the next turn's."""
    layout = Layout(Tokenizer(model_folder))
    paragraphs = tuple((n, f"Locker {n} holds {n * 7} umbrellas and is opened at {n % 12} o'clock.") for n in range(65))
    prefix = layout.prefix([layout.section_ids(SectionText("Lockers", paragraphs))], "kb", "lockers")
    assert 1700 < prefix.num_tokens < 2100
    client = Client(lease.engine, Ledger(tmp_path / "ledger.sqlite"))
    first_prompt = layout.ask(prefix, "How many umbrellas are in locker 3?")
    first = await read(client, first_prompt)
    second = await read(client, layout.ask(prefix, "When is locker 9 opened?"))
    history = layout.history_after(first_prompt, first.token_ids)
    third = await read(client, layout.ask(prefix, "And locker 5?", history_ids=history))
    assert (first.receipt.cached_tokens, first.receipt.cold_because) == (0, "first_use")
    for receipt in (second.receipt, third.receipt):
        assert receipt.cached_tokens is not None
        assert receipt.cold_because is None
    assert (second.receipt.cached_tokens or 0) >= 0.95 * second.receipt.prompt_tokens
    known = first_prompt.num_tokens + len(first.token_ids) - 1
    assert third.receipt.cached_tokens == known // BLOCK_SIZE * BLOCK_SIZE
    assert second.receipt.first_token_ms is not None
    assert first.receipt.first_token_ms is not None
    assert second.receipt.cold_first_token_ms == first.receipt.first_token_ms
    await client.close()


async def test_words_and_ids_of_a_stream_belong_together(lease: Lease, model_folder: Path) -> None:
    """The raw ids decode to the words that streamed; greedy answers repeat."""
    tokenizer = Tokenizer(model_folder)
    layout = Layout(tokenizer)
    prompt = layout.ask(layout.prefix([layout.section_ids(SectionText("T", ((1, "The cat is black."),)))]), "Colour?")
    client = Client(lease.engine)
    answers = []
    for _ in range(2):
        events = [event async for event in client.generate(prompt, Sampling(max_tokens=30))]
        finish = events[-1]
        assert isinstance(finish, Finish)
        text = "".join(event.text for event in events if isinstance(event, Delta))
        assert tokenizer.decode(finish.token_ids).strip() == text.strip()
        assert finish.receipt.output_tokens == len(finish.token_ids)
        answers.append(text)
    assert answers[0] == answers[1] != ""
    await client.close()


async def test_fake_caches_as_vllm_does(lease: Lease, tmp_path: Path) -> None:
    """32 random call sequences (ask, warm, follow up, reset; salts, shared beginnings, aligned ends, evictions)."""
    plain = replace(lease.engine, features=None)
    clients = {None: Client(plain)} | {name: Client(plain, salts=Salts(tmp_path)) for name in ("a", "b")}
    assert (lease.engine.num_blocks, lease.engine.block_size) == (NUM_BLOCKS, BLOCK_SIZE)
    reset(lease)
    fake = BlockCache(NUM_BLOCKS, BLOCK_SIZE)
    dice = random.Random(29)
    num_evicting = num_hits = 0
    for sequence in range(32):
        shared = [dice.randrange(100, 40_000) for _ in range(dice.choice([64, 96, 200]))]
        documents = [
            [*(shared if dice.random() < 0.5 else []), *(dice.randrange(100, 40_000) for _ in range(length))]
            for length in (dice.choice([31, 32, 33, 160, 256, 400, 640]) for _ in range(4))
        ]
        asked: list[tuple[list[int], str | None]] = []
        for step in range(6):
            what = dice.choice(["ask", "ask", "ask", "again", "warm", "follow"])
            salt = dice.choice([None, None, "a", "b"])
            tail = [dice.randrange(100, 40_000) for _ in range(dice.choice([0, 1, 5, 32]))]
            prompt = [*dice.choice(documents), *tail]
            if what == "again" and asked:
                prompt, salt = dice.choice(asked)
            elif what == "follow" and asked:
                before, salt = dice.choice(asked)
                prompt = [*before, *tail, 7]
            max_tokens = 1 if what == "warm" else dice.choice([1, 2, 12, 34])
            finish = await read(clients[salt], Prompt(Prefix(tuple(prompt), salt or ""), ()), max_tokens)
            known_before = fake.num_known
            cached = fake.ask(prompt, finish.token_ids, salt)
            assert finish.receipt.cached_tokens == cached, f"sequence {sequence}, step {step}: {what}"
            num_hits += cached > 0
            num_evicting += known_before > fake.num_known or fake.num_known == NUM_BLOCKS - 1
            asked.append(([*prompt, *finish.token_ids[:-1]], salt))
        if dice.random() < 0.2:
            reset(lease)
            assert fake.reset()
    assert num_hits > 40
    assert num_evicting > 12, "the pool was never full: the test proves little"
    for client in clients.values():
        await client.close()


async def test_warm_prefix_is_whole_for_its_first_question(lease: Lease) -> None:
    """One that fills its last block too."""
    client = Client(lease.engine)
    prefix = Prefix(tuple(range(1000, 1000 + 10 * BLOCK_SIZE)), name="aligned")
    receipts: list[Receipt] = [await client.warm(prefix), await client.warm(prefix)]
    assert [receipt.cached_tokens for receipt in receipts] == [0, 10 * BLOCK_SIZE]
    finish = await read(client, Prompt(prefix, (7, 8)))
    assert (finish.receipt.cached_tokens, finish.receipt.cold_because) == (10 * BLOCK_SIZE, None)
    await client.close()


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_stopped_stream_is_aborted_in_the_engine(lease: Lease, how: str) -> None:
    """Nothing runs or waits there any more, long before the answer would have ended."""
    client = Client(lease.engine)
    prompt = Prompt(Prefix(tuple(random.Random(how).choices(range(100, 40_000), k=1500))), (7,))
    stream = client.generate(prompt, Sampling(max_tokens=700, stop=(), repetition_penalty=1.3))
    url = lease.engine.url
    if how == "close":
        assert isinstance(await anext(stream), Delta)
        assert await asyncio.to_thread(num_running, url) == 1
        await stream.aclose()
    else:
        task = asyncio.create_task(drain(stream))
        assert await asyncio.to_thread(eventually, lambda: num_running(url) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.to_thread(eventually, lambda: num_running(url) == 0)
    await client.close()


async def test_too_long_prompt_is_the_engines_refusal_too(lease: Lease) -> None:
    """Where the client does not know the limit, the server's 400 is translated."""
    client = Client(replace(lease.engine, max_model_len=100_000, features=None))
    with pytest.raises(EngineError, match="too long") as caught:
        await read(client, Prompt(Prefix(tuple(range(100, 100 + MAX_MODEL_LEN))), (7,)))
    assert caught.value.code == "prompt_too_long"
    await client.close()


async def test_engine_takes_a_priority(lease: Lease) -> None:
    """Started with priority scheduling; without it a priority other than 0 is an error."""
    client = Client(lease.engine)
    prompt = Prompt(Prefix(tuple(range(500, 600))), (7,))
    events = [event async for event in client.generate(prompt, Sampling(max_tokens=1, priority=-5))]
    assert isinstance(events[-1], Finish)
    assert events[-1].receipt.cached_tokens is not None
    await client.close()


async def drain(stream: AsyncIterator[Delta | Finish]) -> None:
    async for _ in stream:
        pass


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Starts a process that connects, and so starts the engine."""
    with holding() as start:
        yield start


def names_of_group(group: int) -> set[str]:
    found = set()
    for pid in pids_of_group(group):
        try:
            found.add(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode())
        except OSError:
            continue
    return found


def wait_for_worker(state_dir: Path) -> int:
    """Waits until vLLM has started both its processes; returns the engine's process group."""
    assert eventually(lambda: read_record(state_dir) is not None, 60)
    record = read_record(state_dir)
    assert record is not None
    group = record.pid
    assert eventually(lambda: {"VLLM::EngineCore", "VLLM::Worker"} <= names_of_group(group), 120)
    return group


async def test_killed_owner_leaves_no_process_though_an_answer_streams(
    model_folder: Path, tmp_path: Path, hold: Hold
) -> None:
    """kill -9 of what started the engine: a second user found the same engine; after the kill all is gone in 10 s."""
    settings = settings_for(model_folder, tmp_path)
    owner = hold(settings)
    group = await asyncio.to_thread(wait_for_worker, tmp_path)
    second = await asyncio.to_thread(connect, settings)
    record = read_record(tmp_path)
    assert record is not None
    assert (second.engine.pid, second.engine.instance) == (group, record.instance)
    stream = Client(second.engine).generate(Prompt(Prefix(tuple(range(100, 200))), (7,)), Sampling(max_tokens=2000))
    assert isinstance(await anext(stream), Delta)
    second.close()
    assert find(settings) is not None
    owner.kill()
    assert await asyncio.to_thread(eventually, lambda: not pids_of_group(group), 10)
    with pytest.raises(EngineError) as caught:
        async for _ in stream:
            pass
    assert caught.value.code in ("engine_unreachable", "engine_failed")  # cut off, or told so at the last moment


def test_killed_engine_leaves_no_process(model_folder: Path, tmp_path: Path, hold: Hold) -> None:
    """kill -9 of the server's own process, which vLLM's core and worker would outlive."""
    holder = hold(settings_for(model_folder, tmp_path))
    group = wait_for_worker(tmp_path)
    os.kill(group, signal.SIGKILL)
    assert eventually(lambda: not pids_of_group(group), 10)
    assert holder.stdout is not None
    assert any(line.startswith("error engine_died") for line in holder.stdout)


def test_interrupted_start_leaves_no_process(model_folder: Path, tmp_path: Path, hold: Hold) -> None:
    """Ctrl-C while vLLM loads."""
    holder = hold(settings_for(model_folder, tmp_path))
    group = wait_for_worker(tmp_path)
    holder.send_signal(signal.SIGINT)
    assert holder.stdout is not None
    assert any(line.startswith("interrupted") for line in holder.stdout)
    assert eventually(lambda: not pids_of_group(group), 10)


def test_cache_too_small_for_the_context_is_one_sentence(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the start; and what vLLM says after it has loaded the weights, where nobody has reckoned."""
    settings = settings_for(model_folder, tmp_path, num_gpu_blocks_override=8)
    with pytest.raises(EngineError, match=r"2,304 tokens needs .* at most 224 tokens fit") as caught:
        connect(settings)
    assert caught.value.code == "does_not_fit"
    assert not (tmp_path / "engine.log").exists()
    monkeypatch.setattr("engine.process.refuse_what_does_not_fit", lambda *given: None)
    with pytest.raises(EngineError, match=r"2304 tokens needs .* GiB .* shorter context \(max_model_len\)") as caught:
        connect(settings)
    assert caught.value.code == "does_not_fit"
    assert find(settings) is None
