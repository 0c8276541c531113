"""How a server is asked how likely a text is, and what is made of its answer; the fake's own likelihoods."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_double import Double, client_of, serving
from hypothesis import given
from hypothesis import strategies as st
from processes import eventually
from tiny import write_tiny_tokenizer

from engine.base import EngineError, Prefix, Prompt
from engine.fake import Delays, FakeEngine
from engine.fake_likelihood import log_probabilities
from engine.fake_server import app_of
from engine.salts import Salts

PROMPT = Prompt(Prefix((3, 4, 5), "kb", "doc"), (7, 8))


@pytest.fixture
def double() -> Iterator[Double]:
    with serving(Double()) as served:
        yield served


def place(id_: int, chance: float, rank: int = 1) -> dict[str, Any]:
    return {str(id_): {"logprob": chance, "rank": rank, "decoded_token": "x"}}


def told(*places: Any) -> tuple[int, Any]:
    return (200, {"choices": [{"text": "x", "prompt_logprobs": list(places)}]})


async def test_the_tails_logarithms_come_back_and_one_id_is_asked_for(double: Double, tmp_path: Path) -> None:
    """All ids travel, with the namespace's salt; where the likeliest id is told too, the prompt's own one counts."""
    first, second = place(7, -0.5, rank=2) | place(9, -0.1), place(8, -2.25)
    double.route = lambda method, path, body: told(None, place(4, -3.0), place(5, -4.0), first, second)
    client = client_of(double, salts=Salts(tmp_path))
    assert await client.log_probabilities(PROMPT) == (-0.5, -2.25)
    assert [(method, path) for method, path, _ in double.requests] == [("POST", "/v1/completions")]
    assert double.bodies == [
        {
            "model": "m",
            "prompt": [3, 4, 5, 7, 8],
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
            "cache_salt": Salts(tmp_path).salt_of("kb"),
        }
    ]
    await client.close()


@pytest.mark.parametrize(
    ("answer", "code", "sentence"),
    [
        ((200, {"choices": [{"text": "x"}]}), "no_likelihoods", "does not say how likely a text is; use vLLM"),
        (told(None, place(4, -3.0), place(5, -4.0), place(7, -0.5)), "engine_failed", "same version"),
        (told(None, place(4, -3.0), place(5, -4.0), place(7, -0.5), place(9, -1.0)), "engine_failed", "same version"),
        ((200, {"choices": []}), "engine_failed", "same version"),
        ((404, {"error": {"message": "Not Found"}}), "engine_failed", "does not know the model or the route"),
    ],
)
async def test_an_answer_without_them_is_one_sentence(double: Double, answer: Any, code: str, sentence: str) -> None:
    """A server that knows nothing of it, too few of them, another id's, none at all, no such route."""
    double.route = lambda method, path, body: answer
    with pytest.raises(EngineError, match=sentence) as caught:
        await client_of(double).log_probabilities(PROMPT)
    assert caught.value.code == code


async def test_a_prompt_that_leaves_no_room_is_not_even_sent(double: Double) -> None:
    with pytest.raises(EngineError, match=r"100 tokens .* at most 99") as caught:
        await client_of(double).log_probabilities(Prompt(PROMPT.prefix, tuple(range(97))))
    assert caught.value.code == "prompt_too_long"
    assert double.bodies == []


async def test_who_waits_no_longer_closes_the_connection(double: Double) -> None:
    """The server sees its pipe break."""
    double.chunks = [0.02, {"x": "y" * 4_000}] * 200
    task = asyncio.create_task(client_of(double).log_probabilities(PROMPT))
    assert await asyncio.to_thread(eventually, lambda: len(double.bodies) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(eventually, lambda: double.num_broken_pipes == 1)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40), st.data())
def test_the_fake_holds_an_id_for_likelier_the_more_often_it_stood_there(ids: list[int], data: st.DataObject) -> None:
    """Chances lie between 0 and 1; those of a tail are the same however it is cut."""
    start = data.draw(st.integers(1, len(ids) - 1))
    chances = log_probabilities(ids, start)
    assert chances == log_probabilities(ids, 1)[start - 1 :]
    assert all(0 < math.exp(chance) < 1 for chance in chances)
    seen, unseen = log_probabilities([*ids, ids[0]], len(ids)), log_probabilities([*ids, 51], len(ids))
    assert seen > unseen


async def test_the_fake_computes_the_whole_prompt_each_time() -> None:
    """As vLLM does: what is cached is not used for it, but what it read can be found afterwards."""
    engine = FakeEngine()
    prompt = Prompt(Prefix(tuple(range(100)), name="doc"), (7,))
    first, second = [await engine.log_probabilities(prompt) for _ in range(2)]
    assert first == second == log_probabilities(prompt.token_ids, 100)
    assert [call.cached_tokens for call in engine.calls] == [0, 0]
    receipt = await engine.warm(prompt.prefix)
    assert receipt.cached_tokens == 96


async def test_the_server_without_a_model_tells_them_as_vllm_does(tmp_path: Path) -> None:
    """Through the same route; any other use of it is refused."""
    folder = write_tiny_tokenizer(tmp_path / "tiny", qwen=True)
    app = app_of(folder, tmp_path / "state", Delays())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://fake") as http:
        answered = await http.post("/v1/completions", json={"prompt": [3, 4, 3], "prompt_logprobs": 0})
        refused = await http.post("/v1/completions", json={"prompt": [3, 4, 3]})
    chances = log_probabilities([3, 4, 3], 1)
    places = answered.json()["choices"][0]["prompt_logprobs"]
    assert places == [None, {"4": {"logprob": chances[0]}}, {"3": {"logprob": chances[1]}}]
    assert refused.status_code == 400
