"""A vLLM server that somebody started by hand: with the plugin all is there, without it questions are answered too."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from by_hand import ROOT, TOKEN, ByHand, serving

from engine.base import EngineError, Finish, Prefix, Prompt, Sampling
from engine.client import Client
from engine.look import look
from engine.probe import probe
from engine.salts import Salts

pytestmark = pytest.mark.engine

BLOCK_SIZE = 128  # vLLM's own choice on a CPU
GUIDE = str(ROOT / "data" / "observatory-guide.md")
with_plugin = pytest.mark.parametrize("server", ["readonce"], indirect=True)
without_plugin = pytest.mark.parametrize("server", [""], indirect=True)


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ByHand]:
    with serving(model_folder, tmp_path_factory.mktemp("by-hand"), request.param) as made:
        yield made


@pytest.fixture
async def client(server: ByHand, tmp_path: Path) -> AsyncIterator[Client]:
    made = Client(probe(server.url, token=TOKEN), salts=Salts(tmp_path))
    yield made
    await made.close()


def document(seed: str, num_tokens: int = 700, namespace: str = "kb") -> Prefix:
    return Prefix(tuple(random.Random(seed).choices(range(100, 40_000), k=num_tokens)), namespace, f"kb/{seed}/1")


async def ask(client: Client, prefix: Prefix, tail: int) -> Finish:
    events = [event async for event in client.generate(Prompt(prefix, (28, tail)), Sampling(max_tokens=4))]
    assert isinstance(events[-1], Finish)
    return events[-1]


def state_of(server: ByHand, prefix: Prefix) -> tuple[str, int | None, bool] | None:
    """State, resident tokens and pin of a prefix, as `readonce status` reads them; None where it is unknown."""
    view = look(server.url, TOKEN)
    assert view is not None
    found = [one for one in view.prefixes if one.id == prefix.id]
    return (found[0].state, found[0].resident_tokens, found[0].pinned) if found else None


def hit_tokens(server: ByHand) -> float:
    """Tokens that the server found in its cache since its start, by its own count."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    return sum(float(n) for n in re.findall(r"^vllm:prefix_cache_hits_total\{[^}]*\} (\S+)$", page, re.M))


class Commands:
    """readonce's commands, pointed at the server, in a home of their own."""

    def __init__(self, server: ByHand, model_folder: Path, home: Path) -> None:
        theirs = {name: value for name, value in os.environ.items() if not name.startswith("READONCE_")}
        self._variables = theirs | {
            "READONCE_HOME": str(home), "READONCE_MODEL": str(model_folder), "READONCE_EMBEDDER": "hashing",
            "READONCE_DEVICE": "cpu", "READONCE_ENGINE_URL": server.url, "READONCE_ENGINE_TOKEN": TOKEN,
            "READONCE_ANSWER_TOKENS": "8", "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def __call__(self, *arguments: str) -> tuple[Any, str]:
        """What it printed as JSON, and stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "app.cli", *arguments],
            cwd=ROOT, env=self._variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr


@pytest.fixture
def readonce(server: ByHand, model_folder: Path, tmp_path: Path) -> Commands:
    made = Commands(server, model_folder, tmp_path / "home")
    added, _ = made("add", GUIDE, "--jsonl")
    assert added["status"] == "ok"
    return made


@with_plugin
def test_the_plugins_name_alone_turns_all_of_it_on(server: ByHand, client: Client) -> None:
    """No flag speaks of events, scheduling or blocks, and the key guards our routes as it guards vLLM's."""
    engine = client.running
    assert (engine.model, engine.block_size) == ("small", BLOCK_SIZE)
    assert engine.features == {"core": True, "attention": False, "events": True}
    assert client.features.handles
    assert client.features.off == ""
    with pytest.raises(EngineError) as caught:
        probe(server.url, token="another")
    assert caught.value.code == "token_refused"


@with_plugin
async def test_a_prefix_is_registered_reused_pinned_and_freed_there(server: ByHand, client: Client) -> None:
    """The second question finds the whole blocks; freed, it is unknown, and cold when it comes back."""
    prefix = document("report")
    assert (await client.cache_prefix(prefix, pin=True)).state == "warm"
    assert state_of(server, prefix) == ("warm", 640, True)
    receipts = [(await ask(client, prefix, tail)).receipt for tail in (1, 2)]
    assert [receipt.cached_tokens for receipt in receipts] == [640, 640]
    await client.free_prefix(prefix)
    assert state_of(server, prefix) is None
    again = (await ask(client, prefix, 3)).receipt
    assert (again.cached_tokens, again.cold_because) == (0, "first_use")
    view = look(server.url, TOKEN)
    assert view is not None
    assert view.wrong_predictions == 0


@with_plugin
def test_readonce_asks_there_and_its_status_shows_what_is_held(readonce: Commands) -> None:
    """The second question is warm, nothing is said to be off, and the document's prefix is resident."""
    receipts = []
    for question in ("When is the observatory open?", "Who looks after the telescope?"):
        answer, said = readonce("ask", question, "--doc", "observatory-guide.md", "--json")
        receipts.append(answer["receipt"])
        assert "runs without" not in said
    assert receipts[1]["cold_because"] is None  # the first one may be warm too: adding has it read ahead
    assert receipts[1]["prefix"] == receipts[0]["prefix"]
    status, _ = readonce("status", "--json")
    assert status["engine"]["features_off"] == ""
    held = [one for one in status["cache"]["prefixes"] if one["id"] == receipts[1]["prefix"]]
    assert [(one["state"], one["resident_tokens"], one["hits"]) for one in held] == [
        ("warm", receipts[1]["cached_tokens"], 2)
    ]
    assert receipts[1]["cached_tokens"] >= BLOCK_SIZE


@without_plugin
async def test_without_the_plugin_ids_travel_and_each_base_has_its_salt(server: ByHand, client: Client) -> None:
    """What the server counts: found again by the same base, by no other and by nobody unsalted."""
    assert client.running.features is None
    assert not client.features.handles
    prefix = document("plain")
    await client.cache_prefix(prefix)  # read ahead, with a priority that this server does not schedule by
    hits = hit_tokens(server)
    answer = await ask(client, prefix, 1)
    assert len(answer.token_ids) == 4
    assert hit_tokens(server) - hits == 640
    unsalted = Client(client.running)
    for asking, asked in ((client, replace(prefix, namespace="other")), (unsalted, prefix)):
        hits = hit_tokens(server)
        await ask(asking, asked, 1)
        assert hit_tokens(server) - hits == 0
    await unsalted.close()


@without_plugin
def test_without_the_plugin_readonce_answers_and_says_what_is_off(readonce: Commands, server: ByHand) -> None:
    """One sentence on stderr and in the status; the cache is not known and the receipt says so."""
    answer, said = readonce("ask", "When is the observatory open?", "--doc", "observatory-guide.md", "--json")
    (off,) = [line for line in said.splitlines() if "without readonce's routes" in line]
    assert off == (
        f"The engine at {server.url} runs without readonce's routes: each question carries its whole document, nothing "
        "can be pinned or freed, what is cached is not known; start it with VLLM_PLUGINS=readonce to have them."
    )
    assert answer["receipt"]["cached_tokens"] is None
    status, _ = readonce("status", "--json")
    assert (status["engine"]["features_off"], status["cache"]) == (off, None)
