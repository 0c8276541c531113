"""The server without a model: readonce's own routes, answers that quote, and how long each question took in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import uvicorn
from tiny import write_tiny_tokenizer

from engine.blocks import BlockCache
from engine.fake import Delays
from engine.fake_server import FakeResidency, app_of
from engine.prompt import Layout
from engine.registered import Registered
from engine.tokenizer import Tokenizer

TEXT = "Keepers\n[1] Adam keeps the mill. Berta keeps the lock.\n[2] Cara keeps the tower."


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer(write_tiny_tokenizer(tmp_path / "tiny", qwen=True))


@pytest.fixture
async def http(tokenizer: Tokenizer, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = app_of(tokenizer.folder, tmp_path / "state", Delays())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client
    server.should_exit = True
    await serving


async def test_an_answer_quotes_the_sentence_that_is_asked_for(http: httpx.AsyncClient, tokenizer: Tokenizer) -> None:
    """By handle, as of a vLLM with the plugin; the second question finds the whole prefix."""
    layout = Layout(tokenizer)
    prefix = layout.prefix((tokenizer.encode_text(TEXT),))
    made = (await http.post("/v1/prefixes", json={"token_ids": list(prefix.token_ids), "warm": "no"})).json()
    cached = []
    for question, quoted in (("Who keeps the lock?", "Berta keeps the lock [1]."), ("Which tower?", "Cara")):
        tail = layout.ask(prefix, question).tail_ids
        body = {"token_ids": list(tail), "max_tokens": 200, "text": True}
        answered = await http.post(f"/v1/prefixes/{made['id']}/generate", json=body)
        events = [json.loads(line[6:]) for line in answered.text.splitlines() if line.startswith("data: {")]
        assert quoted in "".join(event.get("text", "") for event in events)
        cached.append(events[-1]["receipt"]["cached_tokens"])
    assert cached[1] >= prefix.num_tokens // 32 * 32
    first, second = (await http.get("/took")).json()
    assert (first["question"], second["question"]) == ("Who keeps the lock?", "Which tower?")
    assert 0 < first["first_s"] <= first["total_s"]
    assert (await http.get("/took")).json() == []


async def test_what_a_question_waits_for_besides_its_answer_is_timed_too(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A passage that is weighed for it: the model would ask just that."""
    layout = Layout(tokenizer)
    asked = layout.ask(layout.prefix(()), "Passage:\nBerta keeps the lock.\n\nWhich question does this passage answer?")
    ids = [*asked.token_ids, *tokenizer.encode_text("Who keeps the lock?")]
    body = {"prompt": ids, "max_tokens": 1, "prompt_logprobs": 0}
    app = app_of(tokenizer.folder, tmp_path / "state", Delays())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://fake") as http:
        assert (await http.post("/v1/completions", json=body)).status_code == 200
        (took,) = (await http.get("/took")).json()
    assert took["question"] == "Who keeps the lock?"
    assert 0 < took["first_s"] <= took["total_s"]


def test_every_prediction_of_it_is_counted() -> None:
    """Right and wrong ones, as /v1/cache tells them."""
    residency = FakeResidency(BlockCache(8, 4))
    nothing = Registered("id", "", "", np.arange(4), None)
    residency.settle(residency.predict(nothing, (1,)), 0)
    residency.settle(residency.predict(nothing, (1,)), 4)
    assert (residency.predictions, residency.wrong_predictions) == (2, 1)
