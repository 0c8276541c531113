"""What the client sends to a server without our routes, and what it makes of the answer and of each failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_double import Double, client_of, serving, usage, words
from processes import eventually

from engine.base import Delta, EngineError, Finish, Prefix, Prompt, Sampling
from engine.client import Client
from engine.salts import Salts
from engine.server import RunningEngine
from engine.tokenizer import Tokenizer

PREFIX = Prefix(tuple(range(64)), "kb", "doc")
PROMPT = Prompt(PREFIX, (7, 8))


@pytest.fixture
def double() -> Iterator[Double]:
    with serving(Double()) as served:
        yield served


async def read(client: Client, prompt: Prompt = PROMPT, sampling: Sampling | None = None) -> tuple[str, Finish]:
    events = [event async for event in client.generate(prompt, sampling or Sampling())]
    (finish,) = [event for event in events if isinstance(event, Finish)]
    assert events[-1] is finish
    return "".join(event.text for event in events if isinstance(event, Delta)), finish


async def test_request_carries_ids_salt_and_sampling(double: Double, tmp_path: Path) -> None:
    """Token ids, never text; the namespace's salt; the answer never runs over the context's end."""
    double.chunks = [words("Hi", [5], "stop"), usage(66, 1, 0)]
    sampling = Sampling(stop=("X",), repetition_penalty=1.1, priority=3, min_tokens=2, ignore_eos=True)
    await read(client_of(double, salts=Salts(tmp_path)), sampling=sampling)
    assert double.bodies == [
        {
            "model": "m",
            "prompt": [*range(64), 7, 8],
            "max_tokens": 34,
            "temperature": 0.0,
            "stop": ["X"],
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "repetition_penalty": 1.1,
            "cache_salt": Salts(tmp_path).salt_of("kb"),
            "priority": 3,
            "min_tokens": 2,
            "ignore_eos": True,
        }
    ]


async def test_without_salts_no_salt_is_sent_and_no_needless_field(double: Double) -> None:
    """A server that does not know a field is not asked about it without need."""
    double.chunks = [words("Hi", [5], "stop"), usage(66, 1, 0)]
    await read(client_of(double), Prompt(Prefix((1, 2)), (3,)), Sampling(max_tokens=5))
    assert double.bodies[0].keys() & {"cache_salt", "priority", "min_tokens", "ignore_eos"} == set()
    assert double.bodies[0]["max_tokens"] == 5


async def test_answer_and_receipt(double: Double) -> None:
    """Words and raw ids as they come; the receipt from the last chunk; the second question reused the prefix."""
    client = client_of(double)
    double.chunks = [words("At ", [5, 6]), words("ten.", [7]), words("", [2], "stop"), usage(66, 4, 0)]
    text, first = await read(client)
    assert (text, first.token_ids, first.reason) == ("At ten.", (5, 6, 7, 2), "stop")
    assert (first.receipt.prompt_tokens, first.receipt.cached_tokens, first.receipt.output_tokens) == (66, 0, 4)
    assert (first.receipt.cold_because, first.receipt.prefix) == ("first_use", PREFIX.id)
    assert first.receipt.first_token_ms is not None
    assert 0 < first.receipt.first_token_ms <= first.receipt.total_ms
    double.chunks = [words("At", [5], "length"), usage(66, 1, 64)]
    _, second = await read(client)
    assert (second.receipt.cached_tokens, second.receipt.cold_because, second.reason) == (64, None, "length")
    assert second.receipt.cold_first_token_ms == first.receipt.first_token_ms


async def test_what_the_server_does_not_report_is_unknown(double: Double) -> None:
    """No usage chunk: nothing is invented but the prompt's own length."""
    double.chunks = [words("Hi", [5]), words("", [2], "stop")]
    _, finish = await read(client_of(double))
    receipt = finish.receipt
    assert (receipt.prompt_tokens, receipt.cached_tokens, receipt.output_tokens) == (66, None, 2)
    assert receipt.cold_because == "unknown"


@pytest.mark.parametrize("status", [400, 422])
async def test_plain_server_is_asked_again_without_vllms_fields_and_from_then_on(
    double: Double, status: int, tokenizer: Tokenizer
) -> None:
    """The answer's ids are then made from its words, and what is missing is told."""
    double.refuse = lambda body: (
        (status, "Unrecognized request argument: return_token_ids") if "return_token_ids" in body else None
    )
    double.chunks = [words("Hi"), words(" you", None, "stop"), usage(66, 2, None)]
    client = client_of(double, tokenizer=tokenizer)
    assert "share their cache" not in client.features.off
    for _ in range(2):
        text, finish = await read(client)
        assert (text, finish.receipt.cached_tokens) == ("Hi you", None)
        assert finish.token_ids == tokenizer.encode_text("Hi you")
    assert "knowledge bases share their cache" in client.features.off
    assert [set(body) & {"return_token_ids", "cache_salt"} != set() for body in double.bodies] == [True, False, False]


@pytest.mark.parametrize(
    ("status", "message", "code", "sentence"),
    [
        (400, "This model's maximum context length is 100 tokens.", "prompt_too_long", "ask about fewer pages"),
        (400, "bad temperature", "engine_failed", r"HTTP 400\): bad temperature; look into its log"),
        (401, "no", "engine_failed", "wants another API key"),
        (404, "The model `m` does not exist.", "engine_failed", "does not know the model"),
        (500, "EngineCore\n  died", "engine_failed", r"HTTP 500\): EngineCore died; look into its log"),
    ],
)
async def test_refusals_are_one_sentence(double: Double, status: int, message: str, code: str, sentence: str) -> None:
    """The server's words on one line, and what to do; asked once only."""
    double.refuse = lambda body: (status, message)
    with pytest.raises(EngineError, match=sentence) as caught:
        await read(client_of(double))
    assert caught.value.code == code
    assert len(double.bodies) == 1


async def test_prompt_that_leaves_no_room_is_not_even_sent(double: Double) -> None:
    """Both numbers are in the sentence."""
    with pytest.raises(EngineError, match=r"100 tokens .* at most 99") as caught:
        await read(client_of(double), Prompt(PREFIX, tuple(range(36))))
    assert caught.value.code == "prompt_too_long"
    assert double.bodies == []


async def test_error_inside_a_stream_is_one_sentence(double: Double) -> None:
    """vLLM reports what fails after the first word as an event."""
    double.chunks = [words("Hi", [5]), {"error": {"message": "EngineCore encountered an issue.", "code": 500}}]
    with pytest.raises(
        EngineError, match="in the middle of the answer: EngineCore encountered an issue; ask"
    ) as caught:
        await read(client_of(double))
    assert caught.value.code == "engine_failed"


async def test_engine_that_is_gone_is_one_sentence(double: Double) -> None:
    """Nobody listens there any more."""
    running = RunningEngine("http://127.0.0.1:9", "m", "x", max_model_len=100)
    with pytest.raises(EngineError, match="is gone; start it again") as caught:
        await read(Client(running))
    assert caught.value.code == "engine_unreachable"


@pytest.mark.parametrize("before", [[], [words("Hi", [5])]])
async def test_stream_that_ends_without_a_finish_is_an_error(double: Double, before: list[object]) -> None:
    """An engine that dies while it answers must not look like a short answer."""
    double.chunks = [*before, "cut"]
    with pytest.raises(EngineError) as caught:
        await read(client_of(double))
    assert caught.value.code == "engine_unreachable"


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_stopped_stream_closes_the_connection_and_is_remembered(double: Double, how: str) -> None:
    """The server sees its pipe break; the prefix then counts as read."""
    double.chunks = [words("Hi", [5]), *[0.02, words("x", [6])] * 200]
    client = client_of(double)
    stream = client.generate(PROMPT, Sampling())
    assert await anext(stream) == Delta("Hi", (5,))
    if how == "close":
        await stream.aclose()
    else:
        task = asyncio.create_task(_drain(stream))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.to_thread(eventually, lambda: double.num_broken_pipes == 1)
    double.chunks = [words("Hi", [5], "stop"), usage(66, 1, 0)]
    _, finish = await read(client)
    assert finish.receipt.cold_because == "evicted"


async def _drain(stream: object) -> None:
    async for _ in stream:  # type: ignore[attr-defined]
        pass


async def test_warm_asks_for_one_token_at_low_priority(double: Double) -> None:
    """One token after the prefix, so that its last block is cached too."""
    double.chunks = [words("x", [9], "length"), usage(65, 1, 0)]
    receipt = await client_of(double).warm(PREFIX)
    assert receipt.cold_because == "first_use"
    body = double.bodies[0]
    assert (body["prompt"], body["max_tokens"]) == ([*range(64), 0], 1)
    assert body["priority"] > Sampling().priority


async def test_prefix_is_read_ahead_by_asking_about_it(double: Double) -> None:
    """In the background too; what comes of it is not known, and a failure only delays: the question tells it."""
    double.chunks = [words("x", [9], "length"), usage(65, 1, 0)]
    client = client_of(double)
    handle = await client.cache_prefix(PREFIX)
    assert (handle.id, handle.num_tokens, handle.resident_tokens, handle.state) == (PREFIX.id, 64, None, "unknown")
    await client.cache_prefix(PREFIX, wait=False)
    assert await asyncio.to_thread(eventually, lambda: len(double.bodies) == 2)
    assert [body["max_tokens"] for body in double.bodies] == [1, 1]
    double.refuse = lambda body: (500, "no")
    await client.cache_prefix(PREFIX, wait=False)
    assert await asyncio.to_thread(eventually, lambda: len(double.bodies) == 3)
    await client.free_prefix(PREFIX)
    await client.release_session("chat")
    await client.close()
    assert len(double.bodies) == 3


def test_what_is_missing_is_one_sentence_that_says_what_to_do(double: Double) -> None:
    """`features.off` of a server without our routes."""
    features = client_of(double).features
    assert not features.handles
    assert double.url in features.off
    assert features.off.endswith("start it with VLLM_PLUGINS=readonce to have them.")


async def test_token_is_sent(double: Double) -> None:
    """As vLLM wants it."""
    double.chunks = [words("x", [9], "stop"), usage(65, 1, 0)]
    running = RunningEngine(double.url, "m", "life-1", max_model_len=100, token="secret")
    await read(Client(running))
    assert double.requests == [("POST", "/v1/completions", "Bearer secret")]
    assert "secret" not in repr(running)


async def test_two_hundred_streams_at_once(double: Double) -> None:
    """No stream waits for a connection that another holds."""
    double.chunks = [words("a", [5]), 0.3, words("b", [6], "stop"), usage(66, 2, 64)]
    client = client_of(double)
    answers = await asyncio.gather(*(read(client) for _ in range(200)))
    assert {text for text, _ in answers} == {"ab"}
    await client.close()


async def test_schema_travels_as_vllms_structured_output(double: Double) -> None:
    """As text: vLLM reads it, and it is not sent where none is asked for."""
    double.chunks = [words("3", [5], "stop"), usage(66, 1, 0)]
    await read(client_of(double), sampling=Sampling(schema='{"type": "integer"}'))
    await read(client_of(double))
    assert [body.get("structured_outputs") for body in double.bodies] == [{"json": '{"type": "integer"}'}, None]


async def test_server_that_cannot_hold_to_a_schema_is_not_asked_without_it(double: Double) -> None:
    """An answer in any other form would be taken for one that was held to it."""
    double.refuse = lambda body: (400, "Unrecognized field: return_token_ids") if "return_token_ids" in body else None
    double.chunks = [words("three", None, "stop"), usage(66, 1, 0)]
    with pytest.raises(EngineError) as caught:
        await read(client_of(double), sampling=Sampling(schema='{"type": "integer"}'))
    assert (caught.value.code, len(double.bodies)) == ("schema_refused", 1)
