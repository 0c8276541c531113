"""What the client sends to our routes: the handle and the tail, the ids once at most; and what it makes of answers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from http_double import Double, serving, usage, words
from processes import eventually

from engine.base import Delta, EngineError, Finish, Prefix, Prompt, Sampling, prefix_id
from engine.client import Client
from engine.server import RunningEngine
from engine.tokenizer import Tokenizer
from engine.traces import to

PREFIX = Prefix(tuple(range(1000, 1064)), "kb", "doc")
PROMPT = Prompt(PREFIX, (7, 8))
ROUTE = f"/v1/prefixes/{PREFIX.id}"
ALL_ON = {"core": True, "attention": True, "events": True}


def ids(*token_ids: int, text: str = "") -> dict[str, Any]:
    return {"token_ids": list(token_ids)} | ({"text": text} if text else {})


def end(cached: int | None = 64, reason: str = "stop", **more: object) -> dict[str, Any]:
    receipt = {"prompt_tokens": 66, "cached_tokens": cached, "predicted_cached_tokens": cached, "waited_for": None}
    return {"finish_reason": reason, "receipt": receipt | more}


@pytest.fixture
def double() -> Iterator[Double]:
    with serving(Double()) as served:
        yield served


def client_of(double: Double, **changes: object) -> Client:
    running = RunningEngine(double.url, "m", "life-1", 100, block_size=32, token="t", features=ALL_ON)
    return Client(running, **changes)  # type: ignore[arg-type]


async def read(client: Client, prompt: Prompt = PROMPT, sampling: Sampling | None = None) -> tuple[str, Finish]:
    events = [event async for event in client.generate(prompt, sampling or Sampling())]
    (finish,) = [event for event in events if isinstance(event, Finish)]
    assert events[-1] is finish
    return "".join(event.text for event in events if isinstance(event, Delta)), finish


class Registry:
    """Knows handles as our routes do: an unknown one is 404 until its ids have come."""

    def __init__(self, *known: str) -> None:
        self.known = set(known)

    def __call__(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any] | None:
        if path == "/v1/prefixes":
            token_ids = np.frombuffer(base64.b64decode(body["token_ids_b64"]), dtype="<i4")
            handle = prefix_id(body["namespace"], token_ids)
            self.known.add(handle)
            return 200, {"id": handle, "num_tokens": len(token_ids), "resident_tokens": 0, "state": "cold"}
        handle = path.split("/")[3]
        if handle not in self.known:
            return 404, {"error": {"code": "not_found", "message": "There is no such prefix."}}
        if path.endswith("/generate"):
            return None
        if method == "DELETE":
            self.known.discard(handle)
        return 200, {"id": handle, "num_tokens": 64, "resident_tokens": 32, "state": "partial"}


async def test_question_about_a_known_prefix_carries_its_tail_only(double: Double) -> None:
    """No id of the prefix, no text and no salt travel; the answer never runs over the context's end."""
    double.route = Registry(PREFIX.id)
    double.chunks = [ids(5, text="Hi"), end()]
    sampling = Sampling(stop=("X",), repetition_penalty=1.1, priority=3, min_tokens=2, ignore_eos=True)
    await read(client_of(double), sampling=sampling)
    assert double.requests == [("POST", f"{ROUTE}/generate", "Bearer t")]
    assert double.bodies == [
        {
            "namespace": "kb",
            "token_ids": [7, 8],
            "max_tokens": 34,
            "temperature": 0.0,
            "repetition_penalty": 1.1,
            "min_tokens": 2,
            "ignore_eos": True,
            "stop": ["X"],
            "priority": 3,
            "text": True,
        }
    ]


async def test_unknown_prefix_is_registered_once_and_asked_again(double: Double) -> None:
    """Ids travel as bytes, with the first question alone."""
    double.route = Registry()
    double.chunks = [ids(5, text="Hi"), end()]
    client = client_of(double)
    for _ in range(2):
        assert (await read(client))[0] == "Hi"
    asked = ("POST", f"{ROUTE}/generate", "Bearer t")
    assert double.requests == [asked, ("POST", "/v1/prefixes", "Bearer t"), asked, asked]
    registered = double.bodies[1]
    assert np.frombuffer(base64.b64decode(registered.pop("token_ids_b64")), dtype="<i4").tolist() == [*PREFIX.token_ids]
    assert registered == {"namespace": "kb", "name": "doc", "warm": "no"}


async def test_server_that_never_knows_the_prefix_is_one_sentence(double: Double) -> None:
    """Registered, asked again once, and then told."""
    double.route = lambda method, path, body: (404, {}) if path.endswith("/generate") else (200, {})
    with pytest.raises(EngineError, match="lost readonce's routes; start it with VLLM_PLUGINS=readonce") as caught:
        await read(client_of(double))
    assert caught.value.code == "unknown_prefix"
    assert len(double.bodies) == 3


async def test_words_are_made_of_ids_on_this_side(double: Double, tokenizer: Tokenizer) -> None:
    """Characters of several ids come whole; the end of turn is an id without a word."""
    double.route = Registry(PREFIX.id)
    said = "Grüße, 北京 👩‍🚀!"
    token_ids = [*tokenizer.encode_text(said), tokenizer.turn_end]
    double.chunks = [*(ids(token) for token in token_ids), end()]
    client = client_of(double, tokenizer=tokenizer)
    text, finish = await read(client)
    assert double.bodies[0]["text"] is False
    assert text == said
    assert finish.token_ids == tuple(token_ids)
    assert (finish.reason, finish.receipt.output_tokens) == ("stop", len(token_ids))


async def test_with_stop_strings_the_server_makes_the_words(double: Double, tokenizer: Tokenizer) -> None:
    """It ends the answer there, and so its receipt comes."""
    double.route = Registry(PREFIX.id)
    double.chunks = [ids(5, text="from "), ids(6, text="the server"), end()]
    text, _ = await read(client_of(double, tokenizer=tokenizer), sampling=Sampling(stop=("X",)))
    assert (text, double.bodies[0]["text"], double.bodies[0]["stop"]) == ("from the server", True, ["X"])


async def test_receipt_counts_what_was_read_for_this_question_as_computed(double: Double) -> None:
    """A question that waited for its document to be read reused what was there when it came, not what was read then."""
    double.route = Registry(PREFIX.id)
    client = client_of(double)
    receipts = []
    for last in (end(64, waited_for="read", resident_tokens=0), end(64), end(64, reason="length", waited_for="room")):
        double.chunks = [ids(5, text="Hi"), last]
        receipts.append((await read(client))[1].receipt)
    told = [(receipt.cached_tokens, receipt.cold_because) for receipt in receipts]
    assert told == [(0, "first_use"), (64, None), (64, None)]
    assert {receipt.prefix for receipt in receipts} == {PREFIX.id}
    assert {receipt.prompt_tokens for receipt in receipts} == {66}
    assert receipts[1].cold_first_token_ms == receipts[0].first_token_ms


@pytest.mark.parametrize(
    ("status", "body", "code", "sentence"),
    [
        (413, {"error": {"code": "does_not_fit", "message": "9,000 tokens, 64 fit."}}, "does_not_fit", "9,000 tokens"),
        (503, {"error": {"code": "queue_full", "message": "Come again."}}, "queue_full", "Come again"),
        (401, {"error": "Unauthorized"}, "engine_failed", "wants another API key"),
        (500, {"error": {"message": "EngineCore\n died", "code": 500}}, "engine_failed", "EngineCore died; look into"),
        (502, "<html>", "engine_failed", r"HTTP 502"),
    ],
)
async def test_refusals_keep_the_servers_code(
    double: Double, status: int, body: object, code: str, sentence: str
) -> None:
    """Our routes' own codes and sentences go through; vLLM's are put into one sentence."""
    double.route = lambda method, path, sent: (status, body)
    with pytest.raises(EngineError, match=sentence) as caught:
        await read(client_of(double))
    assert (caught.value.code, len(double.bodies)) == (code, 1)


@pytest.mark.parametrize(
    ("told", "code", "sentence"),
    [
        ({"code": "engine_stopped", "message": "It stops."}, "engine_stopped", "It stops"),
        ({"message": "EngineCore died.", "code": 500}, "engine_failed", "in the middle of the answer: EngineCore died"),
    ],
)
async def test_error_inside_a_stream_is_raised(double: Double, told: object, code: str, sentence: str) -> None:
    """Words that had come stay; then the sentence."""
    double.route = Registry(PREFIX.id)
    double.chunks = [ids(5, text="Hi"), {"error": told}]
    stream = client_of(double).generate(PROMPT, Sampling())
    assert await anext(stream) == Delta("Hi", (5,))
    with pytest.raises(EngineError, match=sentence) as caught:
        await anext(stream)
    assert caught.value.code == code


@pytest.mark.parametrize("before", [[], [ids(5, text="Hi")]])
async def test_stream_that_ends_without_a_receipt_is_an_error(double: Double, before: list[object]) -> None:
    """An engine that dies while it answers must not look like a short answer."""
    double.route = Registry(PREFIX.id)
    double.chunks = [*before, "cut"]
    with pytest.raises(EngineError) as caught:
        await read(client_of(double))
    assert caught.value.code == "engine_unreachable"


async def test_engine_of_another_version_is_one_sentence(double: Double) -> None:
    """A receipt without its figures is no traceback."""
    double.route = Registry(PREFIX.id)
    double.chunks = [{"finish_reason": "stop", "receipt": {}}]
    with pytest.raises(EngineError, match="same version of readonce on both sides") as caught:
        await read(client_of(double))
    assert caught.value.code == "engine_failed"


async def test_engine_that_is_gone_is_one_sentence() -> None:
    """Nobody listens there any more."""
    client = Client(RunningEngine("http://127.0.0.1:9", "m", "x", 100, features=ALL_ON))
    with pytest.raises(EngineError, match="is gone; start it again") as caught:
        await read(client)
    assert caught.value.code == "engine_unreachable"


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_stopped_stream_closes_the_connection(double: Double, how: str) -> None:
    """The server sees its pipe break, and aborts; the prefix then counts as read."""
    double.route = Registry(PREFIX.id)
    double.chunks = [ids(5, text="Hi"), *[0.02, ids(6, text="x")] * 200]
    client = client_of(double)
    stream = client.generate(PROMPT, Sampling())
    assert await anext(stream) == Delta("Hi", (5,))
    if how == "close":
        await stream.aclose()
    else:
        task = asyncio.create_task(drain(stream))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.to_thread(eventually, lambda: double.num_broken_pipes == 1)
    double.chunks = [ids(5, text="Hi"), end(0)]
    _, finish = await read(client)
    assert finish.receipt.cold_because == "evicted"


async def drain(stream: object) -> None:
    async for _ in stream:  # type: ignore[attr-defined]
        pass


async def test_prefix_is_cached_by_handle_and_by_ids_only_where_it_is_unknown(double: Double) -> None:
    """Both calls say how long, for whom, and whether somebody waits; what is not given is not changed."""
    double.route = Registry()
    client = client_of(double)
    cold = await client.cache_prefix(PREFIX, ttl_s=60, pin=True, session="chat 1")
    assert (cold.id, cold.num_tokens, cold.resident_tokens, cold.state) == (PREFIX.id, 64, 0, "cold")
    partial = await client.cache_prefix(PREFIX, wait=False)
    assert (partial.resident_tokens, partial.state) == (32, "partial")
    assert [request[:2] for request in double.requests] == [
        ("PATCH", ROUTE),
        ("POST", "/v1/prefixes"),
        ("PATCH", ROUTE),
    ]
    asked, registered, changed = double.bodies
    life = {"namespace": "kb", "warm": "now", "ttl_s": 60, "pin": True, "session": "chat 1"}
    assert asked == life
    assert {key: value for key, value in registered.items() if key != "token_ids_b64"} == life | {"name": "doc"}
    assert changed == {"namespace": "kb", "warm": "background"}


async def test_prefix_is_freed_and_a_session_released_known_or_not(double: Double) -> None:
    """Twice is once; a session's name may hold anything."""
    double.route = Registry(PREFIX.id)
    client = client_of(double)
    await client.free_prefix(PREFIX)
    await client.free_prefix(PREFIX)
    double.route = lambda method, path, body: (404, {})
    await client.release_session("a/b c")
    assert [request[:2] for request in double.requests] == [
        ("DELETE", ROUTE),
        ("DELETE", ROUTE),
        ("DELETE", "/v1/sessions/a%2Fb%20c"),
    ]
    assert double.bodies[:2] == [{"namespace": "kb"}] * 2


async def test_warm_asks_for_one_token_at_low_priority(double: Double) -> None:
    """One token after the prefix, so that its last block is cached too."""
    double.route = Registry(PREFIX.id)
    double.chunks = [ids(9), end(0, reason="length")]
    receipt = await client_of(double).warm(PREFIX)
    assert receipt.cold_because == "first_use"
    body = double.bodies[0]
    assert (body["token_ids"], body["max_tokens"]) == ([1000], 1)
    assert body["priority"] > Sampling().priority


@pytest.mark.parametrize(
    ("on", "off"),
    [
        (ALL_ON, ""),
        (ALL_ON | {"attention": False}, ""),
        (ALL_ON | {"core": False}, "the engine hashes the whole document again for each question;"),
        ({}, "the engine hashes the whole document again for each question and how much of a document is cached is"),
    ],
)
def test_features_that_are_off_are_one_sentence(double: Double, on: dict[str, bool], off: str) -> None:
    """Attention has no equal on a CPU: without it nothing is missing."""
    running = RunningEngine(double.url, "m", "life-1", 100, features=on)
    features = Client(running).features
    assert features.handles
    assert off in features.off
    assert bool(features.off) is bool(off)


@pytest.mark.parametrize("features", [ALL_ON, None])
async def test_question_is_a_span_that_the_server_continues(double: Double, features: dict[str, bool] | None) -> None:
    """Either way; with figures, a failure by its kind, and nothing at all where nothing is traced."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    seen = InMemorySpanExporter()
    double.route = lambda method, path, body: None
    double.chunks = [ids(5, text="Hi"), end(64)] if features else [words("Hi", [5], "stop"), usage(66, 1, 64)]
    running = RunningEngine(double.url, "m", "life-1", 100, features=features)
    await read(Client(running))
    assert double.traceparents == [None]
    traced = Client(running, traces=to("x", seen))
    await read(traced)
    double.route = lambda method, path, body: (500, {"error": {"message": "secret words", "code": 500}})
    with pytest.raises(EngineError):
        await read(traced)
    await traced.close()
    good, bad = seen.get_finished_spans()
    assert [str(each)[3:52] for each in double.traceparents[1:]] == [
        f"{span.context.trace_id:032x}-{span.context.span_id:016x}" for span in (good, bad)
    ]
    figures = {"readonce.prefix": PREFIX.id, "readonce.prompt_tokens": 66}
    assert good.attributes["readonce.first_token_ms"] > 0
    told = {name: value for name, value in good.attributes.items() if name != "readonce.first_token_ms"}
    assert told == figures | {"readonce.cached_tokens": 64, "readonce.output_tokens": 1}
    assert bad.attributes == figures | {"readonce.output_tokens": 0}
    assert (good.status.is_ok, bad.status.is_ok, bad.status.description) == (True, False, "EngineError")


async def test_five_hundred_streams_at_once(double: Double) -> None:
    """No stream waits for a connection that another holds."""
    double.route = Registry(PREFIX.id)
    double.chunks = [ids(5, text="a"), 0.5, ids(6, text="b"), end()]
    client = client_of(double)
    answers = await asyncio.gather(*(read(client) for _ in range(500)))
    assert {text for text, _ in answers} == {"ab"}
    await client.close()


async def test_schema_travels_as_text_and_only_where_one_is_asked_for(double: Double) -> None:
    """An older server does not know the field: it is not told of it without need."""
    double.route = Registry(PREFIX.id)
    double.chunks = [ids(5, text="3"), end()]
    await read(client_of(double), sampling=Sampling(schema='{"type": "integer"}'))
    await read(client_of(double))
    assert [body.get("schema") for body in double.bodies] == ['{"type": "integer"}', None]
