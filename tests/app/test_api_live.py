"""The API over a real socket, as OpenAI's client, curl and chat programs meet it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn
from jsonschema import Draft202012Validator
from library import LIBRARY, write
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from test_api import Backing, asked

from app.api.routes import api, ready
from app.assistant import Assistant
from app.people.desk import Desk
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE
from engine.fake import Delays, FakeEngine
from engine.tokenizer import Tokenizer

QUESTION = "What does a card cost?"
SAID = "A card costs 12 euros a year [3]."


@dataclass(frozen=True)
class Live:
    """The API on a port of its own, and Anna's key, who owns the base `town`."""

    url: str
    key: str

    async def curl(self, path: str, *arguments: str, key: str | None = None) -> tuple[int, dict[str, Any] | str]:
        """The status, and the body: parsed where it is JSON."""
        words = ["curl", "-sS", "-N", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {key or self.key}"]
        process = await asyncio.create_subprocess_exec(
            *words, *arguments, self.url + path, stdout=asyncio.subprocess.PIPE
        )
        body, _, status = (await process.communicate())[0].decode().rpartition("\n")
        try:
            return int(status), json.loads(body)
        except ValueError:
            return int(status), body

    async def post(self, values: Any, **more: Any) -> tuple[int, Any]:
        body = values if isinstance(values, str) else json.dumps(values)
        return await self.curl("/v1/chat/completions", "-H", "Content-Type: application/json", "-d", body, **more)


@pytest.fixture
def engine(tokenizer: Tokenizer) -> FakeEngine:
    """Slow enough that a stream can be left in its middle."""
    return FakeEngine(tokenizer, max_model_len=65_536, num_blocks=16_384, delays=Delays(answer_token_s=0.005))


@pytest.fixture
async def live(assistant: Assistant, tmp_path: Path, quick_hashes: None) -> AsyncIterator[Live]:
    desk = Desk.of(Records.open(tmp_path / "people"), assistant.corpus.kbs)
    desk.people.add(OF_THIS_MACHINE, "anna")
    desk.library.create(OF_THIS_MACHINE, "town", "anna")
    assistant.add(write(tmp_path, "library.md", LIBRARY), kb="town")
    host = Backing(assistant)
    app = Starlette(routes=[Mount("/v1", api(host, desk, tmp_path, desk.people.any)), Route("/ready", ready(host))])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Live(f"http://127.0.0.1:{port}", desk.keys.make(OF_THIS_MACHINE, "anna")[1])
    server.should_exit = True
    await serving


@pytest.fixture
async def client(live: Live) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key=live.key, base_url=f"{live.url}/v1", max_retries=0) as client:
        yield client


async def test_the_client_streams_words_then_citations_receipt_and_usage(
    client: openai.AsyncOpenAI, engine: FakeEngine
) -> None:
    """Usage is null until the last piece, and tells what was cached: the second time the whole prefix."""
    for turn in range(2):
        engine.enqueue(SAID)
        stream = await client.chat.completions.create(
            model="town", messages=asked(QUESTION), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        *pieces, last, used = chunks
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "A card costs 12 euros a year."
        assert all(piece.usage is None and "usage" in piece.model_fields_set for piece in [*pieces, last])
        assert last.model_extra["answer"] == "A card costs 12 euros a year [1]."
        assert last.model_extra["citations"][0]["quote"] == "A reader's card costs 12 euros a year."
        cached = used.usage.prompt_tokens_details.cached_tokens
        assert cached == last.model_extra["receipt"]["cached_tokens"]
        prefix = engine.calls[-1].prompt.prefix.num_tokens
        assert cached >= (prefix // 32 * 32 if turn else 0)


async def test_an_answer_that_was_cut_off_says_so(
    client: openai.AsyncOpenAI, engine: FakeEngine, assistant: Assistant
) -> None:
    """`length` as with OpenAI; an abstention is never cut."""
    engine.enqueue("A card costs 12 euros a year [3]. " * 40)
    said = await client.chat.completions.create(model="town", messages=asked(QUESTION))
    assert said.usage.completion_tokens == assistant.settings.answer_tokens
    assert said.choices[0].finish_reason == "length"


@pytest.mark.parametrize("stream", [False, True])
async def test_who_hangs_up_stops_the_engine(client: openai.AsyncOpenAI, engine: FakeEngine, stream: bool) -> None:
    """Streamed or whole: nobody computes for a program that has gone."""
    engine.enqueue("A card costs 12 euros a year. " * 40)
    asking = client.chat.completions.create(model="town", messages=asked(QUESTION), stream=stream)
    if stream:
        answering = await asking
        async for chunk in answering:
            if chunk.choices[0].delta.content:
                break
        await answering.close()
    else:
        task = asyncio.create_task(asking)
        while not engine.calls or not engine.calls[-1].output_ids:
            await asyncio.sleep(0.01)
        task.cancel()
    while engine.num_running:
        await asyncio.sleep(0.01)
    assert engine.calls[-1].reason == "abort"
    assert len(engine.calls[-1].output_ids) < 200


async def test_curl_gets_the_same_answer(live: Live, engine: FakeEngine) -> None:
    """Whole, and as server-sent events that end with [DONE]."""
    engine.enqueue(SAID, SAID)
    wanted = {"model": "town", "messages": asked(QUESTION)}
    status, whole = await live.post(wanted)
    assert (status, whole["choices"][0]["message"]["content"]) == (200, "A card costs 12 euros a year [1].")
    assert whole["receipt"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
    status, events = await live.post(wanted | {"stream": True})
    lines = [line.removeprefix("data: ") for line in events.split("\n\n") if line]
    assert (status, lines[-1]) == (200, "[DONE]")
    assert json.loads(lines[-2])["citations"] == whole["citations"]
    assert await live.curl("/ready") == (200, {"status": "ready"})


async def _refused(live: Live, values: Any, **more: Any) -> tuple[int, str, str, str | None]:
    status, body = await live.post(values, **more)
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].endswith(".")
    return status, error["type"], error["code"], error["param"]


async def test_each_refusal_has_openais_form(live: Live, engine: FakeEngine) -> None:
    """Status, type, code and the field that is meant; the engine is asked nothing."""
    good = {"model": "town", "messages": asked(QUESTION)}
    invalid = "invalid_request_error"
    wrong_key = await _refused(live, good, key="ro-guess")
    assert wrong_key == (401, "authentication_error", "invalid_api_key", None)
    assert await _refused(live, good | {"model": "village"}) == (404, invalid, "model_not_found", "model")
    long = good | {"messages": asked("card " * 2_000)}
    assert await _refused(live, long) == (400, invalid, "context_length_exceeded", None)
    assert await _refused(live, '{"model": "town", ') == (400, invalid, "bad_request", None)
    assert await _refused(live, {"model": "town"}) == (400, invalid, "bad_request", "messages")
    assert await _refused(live, good | {"messages": []}) == (400, invalid, "bad_request", "messages")
    said_last = good | {"messages": asked(QUESTION, "12 euros.")}
    assert await _refused(live, said_last) == (400, invalid, "bad_request", "messages")
    assert await _refused(live, good | {"document": "none"}) == (404, invalid, "not_found", None)
    for field, value in {
        "n": 2,
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "response_format": {"type": "json_object"},
        "logprobs": True,
        "modalities": ["text", "audio"],
        "web_search_options": {"search_context_size": "low"},
    }.items():
        assert await _refused(live, good | {field: value}) == (400, invalid, "unsupported", field)
    assert engine.calls == []


async def test_what_changes_nothing_is_taken(live: Live, engine: FakeEngine) -> None:
    """OpenAI's own defaults, spelt out, and what says how to sample."""
    engine.enqueue(SAID)
    more = {
        "n": 1,
        "tools": [],
        "tool_choice": "none",
        "response_format": {"type": "text"},
        "logprobs": False,
        "modalities": ["text"],
        "temperature": 0.2,
        "max_completion_tokens": 500,
        "user": "someone",
    }
    status, _ = await live.post({"model": "town", "messages": asked(QUESTION)} | more)
    assert status == 200


TITLE = """### Task:
Name this chat in a few words.
### Output:
JSON: { "title": "..." }
### Chat History:
<chat_history>
USER: What does a card cost?
ASSISTANT: A card costs 12 euros a year.
</chat_history>"""


async def test_a_chat_program_can_ask_and_its_chores_are_refused(live: Live, engine: FakeEngine) -> None:
    """As Open WebUI does: models, a system message, fields of its own; titles would be answers about documents."""
    status, listed = await live.curl("/v1/models")
    assert (status, [model["id"] for model in listed["data"]]) == (200, ["town"])
    engine.enqueue(SAID)
    wanted = {
        "model": "town",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "You are a pirate."}, *asked(QUESTION)],
        "chat_id": "c-1",
        "session_id": "s-1",
        "metadata": {"chat_id": "c-1"},
        "features": {"web_search": False},
        "params": {},
    }
    status, events = await live.post(wanted)
    assert status == 200
    assert '"usage": {"prompt_tokens"' in events
    calls = len(engine.calls)
    refused = await _refused(live, {"model": "town", "stream": False, "messages": asked(TITLE)})
    assert refused == (400, "invalid_request_error", "unsupported", "messages")
    assert len(engine.calls) == calls


async def test_the_description_is_valid_and_what_comes_fits_it(live: Live, engine: FakeEngine) -> None:
    """Every reference leads somewhere, and a real answer and a real error are what is described."""
    _, described = await live.curl("/v1/openapi.json")
    assert described["openapi"].startswith("3.1.")
    assert described["servers"] == [{"url": "/v1"}]
    for reference in _references(described):
        found: Any = described
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        Draft202012Validator.check_schema(found)
    calls = [call for path in described["paths"].values() for call in path.values()]
    assert len({call["operationId"] for call in calls}) == len(calls)
    assert all({"200", "4XX", "5XX"} == set(call["responses"]) for call in calls)
    engine.enqueue(SAID)
    _, answered = await live.post({"model": "town", "messages": asked(QUESTION)})
    _, refused = await live.post({"model": "village", "messages": asked(QUESTION)})
    for name, value in {"Answered": answered, "Error": refused}.items():
        schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
        assert list(Draft202012Validator(schema).iter_errors(value)) == []
    for path, name in {"/v1/models": "Models", "/v1/files": "Files"}.items():
        schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
        assert list(Draft202012Validator(schema).iter_errors((await live.curl(path))[1])) == []


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(each) for each in value.values()))
    return set().union(*(_references(each) for each in value)) if isinstance(value, list) else set()
