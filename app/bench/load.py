"""Decides how many people at once are measured: a home, an engine without a model, the page and people, each apart.

The engine and the page are processes of their own, as in use; the people share this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.bench.load_facts import Fact
from app.bench.load_figures import LoadFigures, Spread, figures_of_way, thirds
from app.bench.load_home import Account, make_home
from app.bench.load_person import PagePerson
from app.bench.load_program import ProgramPerson
from app.bench.load_watch import Cost, watch
from app.problem import Problem

if TYPE_CHECKING:
    from app.settings import Settings
    from engine.fake_server import Took

START_S = 180.0
STATE_EACH_S = 1.0
LEAST_PAUSE_S = 1.0


@dataclass(frozen=True)
class LoadPlan:
    """How many, how long, how often.

    Attributes:
        seconds: From the first login to the last question.
        warm_up_s: In which people come one after the other; its questions do not count.
        think_s: Between an answer and the next question, on average (exponential, at least a second).
        programs: The share of people who ask through the API.
        prompt_token_s, answer_token_s: The engine's speed.
    """

    people: int = 200
    seconds: float = 600.0
    warm_up_s: float = 60.0
    think_s: float = 30.0
    programs: float = 0.1
    prompt_token_s: float = 0.0001
    answer_token_s: float = 0.02


def measure_people(settings: Settings, plan: LoadPlan, say: Callable[[str], None]) -> LoadFigures:
    """Blocking, a little longer than `plan.seconds`. `settings.home` is empty, and stays full of what was measured.

    Raises:
        Problem: `bench_failed` where the page or the engine does not come up.
    """
    from engine.models import resolve_tokenizer

    say("Looking for the model's tokenizer")
    folder = resolve_tokenizer(settings.model_name, settings.cache, offline=settings.offline, report=say).folder
    accounts = make_home(settings, plan.people, say)
    engine_port, page_port = _free_port(), _free_port()
    engine_url, page_url = f"http://127.0.0.1:{engine_port}", f"http://127.0.0.1:{page_port}"
    engine = ["engine.fake_server", str(folder), str(settings.home / "fake"), str(engine_port)]
    speeds = [f"{plan.prompt_token_s:.9f}", f"{plan.answer_token_s:.9f}"]
    page = ["app.cli", "serve", "--port", str(page_port), "--engine", engine_url, "--model", settings.model_name]
    say("Starting an engine without a model, and the page")
    with _process([*engine, *speeds], settings, "engine"), _process(page, settings, "page") as serving:
        _wait_until_ready(f"{page_url}/readonce/state", serving, settings)
        return asyncio.run(_measure(plan, accounts, page_url, engine_url, serving.pid, say))


async def _measure(
    plan: LoadPlan, accounts: Sequence[Account], page_url: str, engine_url: str, pid: int, say: Callable[[str], None]
) -> LoadFigures:
    began = time.monotonic()
    until, since = began + plan.seconds, began + plan.warm_up_s
    wanted = _wanted(accounts)
    people = [
        (ProgramPerson if number < plan.people * plan.programs else PagePerson)(
            page_url, account, lambda: max(LEAST_PAUSE_S, random.expovariate(1 / plan.think_s)), wanted[account.kb]
        )
        for number, account in enumerate(random.sample(list(accounts), len(accounts)))
    ]

    async def come(person: PagePerson | ProgramPerson, number: int) -> None:
        await asyncio.sleep(plan.warm_up_s * number / len(people) * 0.8)
        await person.work(until)

    stop = asyncio.Event()
    watching = asyncio.create_task(watch(pid, stop))
    stating = asyncio.create_task(_ask_state(f"{page_url}/readonce/state", since, stop))
    telling = asyncio.create_task(_tell(say, people, began, plan, stop))
    try:
        async with asyncio.TaskGroup() as coming:
            for number, each in enumerate(people):
                coming.create_task(come(each, number))
    except* Exception as errors:
        raise Problem("bench_failed", f"A simulated person could not go on ({errors.exceptions[0]!r}).") from errors
    finally:
        stop.set()
    cost, states = await watching, await stating
    await telling
    took = await asyncio.to_thread(_took, engine_url)
    return _figures(plan, people, took, cost, states, since, time.monotonic() - began)


def _figures(
    plan: LoadPlan,
    people: Sequence[PagePerson | ProgramPerson],
    took: Sequence[Took],
    cost: Cost,
    states: Sequence[float],
    since: float,
    seconds: float,
) -> LoadFigures:
    ways = []
    for way, kind in (("page", PagePerson), ("API", ProgramPerson)):
        of_kind = [each for each in people if isinstance(each, kind)]
        asked = [asked for each in of_kind for asked in each.asked if asked.at >= since]
        if asked:
            ways.append(figures_of_way(way, asked, took, sum(len(each.lost_kept) for each in of_kind)))
    questions = sum(len(each.asked) for each in people)
    waited = None if cost.waited_s is None else cost.waited_s * 1000 / max(1, questions)
    load = sum(cost.loads) / len(cost.loads), max(cost.loads)
    cpu_ms = cost.cpu_s * 1000 / max(1, questions)
    memory = thirds(cost, since)
    return LoadFigures(plan.people, seconds, tuple(ways), cpu_ms, waited, memory, Spread.of(states), load)


def _wanted(accounts: Sequence[Account]) -> dict[str, Callable[[], Fact]]:
    """For each base what gives its facts in turn: nobody asks what somebody else is asking."""

    def in_turn(facts: Sequence[Fact]) -> Iterator[Fact]:
        while True:
            yield from random.sample(list(facts), len(facts))

    turns = {account.kb: in_turn(account.facts) for account in accounts}
    return {kb: turn.__next__ for kb, turn in turns.items()}


async def _ask_state(url: str, since: float, stop: asyncio.Event) -> list[float]:
    import aiohttp

    took = []
    async with aiohttp.ClientSession() as http:
        while not stop.is_set():
            began = time.monotonic()
            async with http.get(url) as answered:
                await answered.read()
            if began >= since:
                took.append(time.monotonic() - began)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), STATE_EACH_S)
    return took


async def _tell(
    say: Callable[[str], None],
    people: Sequence[PagePerson | ProgramPerson],
    began: float,
    plan: LoadPlan,
    stop: asyncio.Event,
) -> None:
    while not stop.is_set():
        asked = sum(len(each.asked) for each in people)
        say(f"{asked:,} questions of {plan.people} people, {time.monotonic() - began:.0f} of {plan.seconds:.0f} s")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)


def _took(engine_url: str) -> list[Took]:
    from engine.fake_server import Took

    with urllib.request.urlopen(f"{engine_url}/took", timeout=60) as answered:
        return [Took(**each) for each in json.load(answered)]


@contextmanager
def _process(module: list[str], settings: Settings, name: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"READONCE_HOME": str(settings.home), "READONCE_EMBEDDER": settings.embedder}
    root = Path(__file__).resolve().parents[2]
    with (settings.home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *module], env=environment, cwd=root, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], settings: Settings) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answered:
            state: Any = json.load(answered)
            if state["state"] == "ready":
                return
            if state["state"] == "failed":
                raise Problem("bench_failed", f"The page did not get ready: {state['sentence']}")
        time.sleep(0.2)
    said = (settings.home / "page.log").read_text(errors="replace").strip()[-300:]
    raise Problem("bench_failed", f"The page did not come up while it was measured: {said}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
