"""What goes on behind the page: it opens at once, a question waits for the engine, a failure is told and mended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from app.assistant import Assistant
from app.page import host as page_host
from app.page import lookout
from app.page.host import SAMPLES_ADDED, Host
from app.problem import Problem
from app.samples import Sample, Starter
from app.settings import Settings
from engine.base import EngineError
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer
from ingest.corpus import Corpus


class SlowPower:
    """Connects when it is let; fails as often as it is told to."""

    def __init__(self, engine: FakeEngine, tokenizer: Tokenizer) -> None:
        self.engine, self.tokenizer = engine, tokenizer
        self.let, self.failures, self.released = asyncio.Event(), 0, list[bool]()
        self.ended, self.num_connects = False, 0

    async def connect(self, report: Callable[[str], None]) -> tuple[FakeEngine, Tokenizer]:
        report("loading weights ... 12 s")
        await self.let.wait()
        if self.failures:
            self.failures -= 1
            raise EngineError("no_weights", "The weights are missing; run `readonce demo` once with a network.")
        self.ended, self.num_connects = False, self.num_connects + 1
        return self.engine, self.tokenizer

    def has_ended(self, wait_s: float = 0.0) -> bool:
        return self.ended

    def answers(self) -> bool:
        return not self.ended

    async def release(self, linger: bool) -> None:
        self.released.append(linger)


@pytest.fixture
def power(engine: FakeEngine, tokenizer: Tokenizer) -> SlowPower:
    return SlowPower(engine, tokenizer)


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Sample, ...]:
    """Two samples, in place of those that are shipped."""
    files = [tmp_path / "library.md", tmp_path / "metro.txt"]
    files[0].write_text("# The Library\n\nThe reading room opens at 9 in the morning on weekdays.\n")
    files[1].write_text("望江路站\n\n该站共有三个出口，站台长一百二十米。\n")
    questions = ["When does the reading room open?", "车站有几个出口？"]
    found = tuple(
        Sample(file, file.stem, language, (Starter(question, "", 1),))
        for file, language, question in zip(files, ("en", "zh"), questions, strict=True)
    )
    monkeypatch.setattr(page_host, "known_samples", lambda: found)
    return found


@pytest.fixture
async def host(
    settings: Settings, power: SlowPower, listed: tuple[Sample, ...], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Host]:
    def opened(chosen: Settings) -> Assistant:
        return Assistant(chosen, Corpus.open(chosen.home, chosen.ingest), power)  # type: ignore[arg-type]

    monkeypatch.setattr(Assistant, "open", opened)
    host = Host(settings)
    yield host
    await host.end()


async def until_ready(host: Host) -> None:
    async for _ in host.wait():
        await asyncio.sleep(0)


async def test_documents_are_there_while_the_engine_still_starts(host: Host, power: SlowPower) -> None:
    """The state says what is being done, and for how long; the engine's own count of seconds is left out."""
    host.begin()
    assistant = await host.opened()
    while not host.samples_settled:
        await asyncio.sleep(0.01)
    assert [document.name for document in assistant.documents()] == ["library.md", "metro.txt"]
    assert host.state == "starting"
    assert host.sentence("en").startswith("Starting the engine: loading weights, ")
    assert "12 s" not in host.sentence("en")
    assert host.sentence("zh").startswith("正在启动引擎：loading weights，")
    power.let.set()
    await until_ready(host)
    assert host.state == "ready"
    assert host.sentence("en").startswith("Ready · fake")


async def test_the_starters_sections_are_read_ahead(host: Host, power: SlowPower, engine: FakeEngine) -> None:
    """One request a starter, of one token, on what the question will read."""
    power.let.set()
    host.begin()
    await until_ready(host)
    for _ in range(200):
        if len(engine.calls) == 2:
            break
        await asyncio.sleep(0.01)
    assert [call.sampling.max_tokens for call in engine.calls] == [1, 1]


async def test_nothing_is_read_ahead_while_somebody_asks_and_for_a_while_after(
    host: Host, power: SlowPower, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading ahead waits; people go first, and then it goes on."""
    power.let.set()
    with host.asking():
        host.begin()
        await until_ready(host)
        await asyncio.sleep(0.1)
        assert engine.calls == []
    await asyncio.sleep(page_host.LOOK_S + 0.1)
    assert engine.calls == []
    monkeypatch.setattr(page_host, "QUIET_S", 0.0)
    for _ in range(200):
        if len(engine.calls) == 2:
            break
        await asyncio.sleep(0.05)
    assert len(engine.calls) == 2


async def test_removed_samples_stay_removed(host: Host, power: SlowPower) -> None:
    """They are brought to a library that never had any, not to one that was rid of them."""
    power.let.set()
    host.settings.home.mkdir(parents=True, exist_ok=True)
    (host.settings.home / SAMPLES_ADDED).touch()
    host.begin()
    await until_ready(host)
    assert (await host.opened()).documents() == []
    assert host.sample_ids == {}


async def test_a_failed_start_is_told_and_the_next_question_tries_again(host: Host, power: SlowPower) -> None:
    """The page stays up with the engine's own sentence; nothing has to be restarted by hand."""
    power.failures = 1
    power.let.set()
    host.begin()
    with pytest.raises(Problem, match="The weights are missing"):
        await until_ready(host)
    assert host.state == "failed"
    assert host.sentence("en") == "The weights are missing; run `readonce demo` once with a network."
    await until_ready(host)
    assert host.state == "ready"


async def test_the_end_lets_the_engine_go_with_the_page(host: Host, power: SlowPower) -> None:
    """The page's engine does not linger."""
    power.let.set()
    host.begin()
    await until_ready(host)
    await host.end()
    assert power.released == [False]
    host.assistant = None


async def stands(host: Host, power: SlowPower) -> None:
    """Ready, and for so long that its engine's end counts as one."""
    power.let.set()
    host.begin()
    await until_ready(host)
    host.ready_at -= lookout.STANDS_S


async def test_an_engine_that_ended_is_started_again_at_once(
    host: Host, power: SlowPower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to ask for it: the page says what goes on, waits in the meantime, and is ready again."""
    monkeypatch.setattr(lookout, "LOOK_S", 0.01)
    await stands(host, power)
    power.let.clear()
    power.ended = True
    while "loading" not in host.sentence("en"):
        await asyncio.sleep(0.01)
    assert host.state == "starting"
    assert host.sentence("en").startswith("The engine has ended and is started again: loading weights, ")
    assert host.sentence("zh").startswith("引擎已结束，正在重新启动：loading weights，")
    power.let.set()
    await until_ready(host)
    assert host.sentence("en").startswith("Ready · fake")
    assert power.num_connects == 2


async def test_an_engine_that_ends_right_after_its_start_waits_for_a_question(
    host: Host, power: SlowPower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end again and again; the reason is told, and a question has it tried."""
    monkeypatch.setattr(lookout, "LOOK_S", 0.01)
    power.let.set()
    host.begin()
    await until_ready(host)
    power.ended = True
    while host.state == "ready":
        await asyncio.sleep(0.01)
    assert (host.state, power.num_connects) == ("failed", 1)
    assert host.sentence("en").startswith("The engine ended right after its start; ")
    assert "engine.log says why" in host.sentence("en")
    await until_ready(host)
    assert (host.state, power.num_connects) == ("ready", 2)


async def test_an_engine_elsewhere_is_waited_for(host: Host, power: SlowPower, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look that finds nobody says little; after some the page tells it, and is ready once it answers."""
    monkeypatch.setattr(lookout, "LOOK_ELSEWHERE_S", 0.01)
    host.settings = replace_url(host.settings)
    await stands(host, power)
    looks = 0

    def answers() -> bool:
        nonlocal looks
        looks += 1
        return not 1 < looks < 2 + lookout.MISSES

    monkeypatch.setattr(power, "answers", answers)
    told = set[str]()
    while looks < 3 + lookout.MISSES:
        told.add(f"{looks >= 1 + lookout.MISSES} {host.state}")
        await asyncio.sleep(0)
    await until_ready(host)
    assert "False failed" not in told
    assert "True failed" in told
    assert (host.state, power.num_connects, power.released) == ("ready", 2, [True])


def replace_url(settings: Settings) -> Settings:
    return settings.model_copy(update={"engine_url": "http://127.0.0.1:9"})
