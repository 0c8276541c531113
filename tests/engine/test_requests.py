"""vLLM makes one request for each way to sample; questions get copies with their own names, prompt and mark."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.base import Sampling
from engine.core import NUM_KEY, PREFIX_KEY, TAIL_KEY, is_sealed
from engine.registered import Registered
from engine.requests import Requests, Way

SEAL = "seal"
FIRST = Registered("ab", "kb", "", np.arange(64, dtype=np.int32), "salt")
SECOND = Registered("cd", "kb", "", np.arange(32, dtype=np.int32), None)


class Client:
    """vLLM's front end; keeps what it was asked to make."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.input_processor = self

    async def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    def process_inputs(self, request_id: str, prompt: Any, params: Any, *, supported_tasks: Any) -> Any:
        request = SimpleNamespace(
            request_id=request_id, prompt_token_ids=prompt, sampling_params=params, tasks=supported_tasks
        )
        self.made.append(request)
        return request


@pytest.fixture(autouse=True)
def _vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: dict[str, dict[str, Any]] = {
        "vllm": {"SamplingParams": lambda **fields: SimpleNamespace(extra_args=None, **fields)},
        "vllm.sampling_params": {
            "RequestOutputKind": SimpleNamespace(DELTA=1),
            "StructuredOutputsParams": SimpleNamespace,
        },
        "vllm.inputs": {},
        "vllm.inputs.engine": {"tokens_input": lambda ids: ids},
    }
    for name, values in parts.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)


async def test_two_questions_of_one_way_are_copies_that_share_nothing_of_their_own() -> None:
    """Made once; each has its own name, salt, place in the queue, traces, length of prompt and mark."""
    client = Client()
    requests = Requests(client, SEAL)
    way = Way(max_tokens=9)
    one = await requests.make(way, FIRST, 64, [7, 8], "r1", 3, {"traceparent": "t"})
    other = await requests.make(way, SECOND, 30, [9], "r2", 0, None)
    assert len(client.made) == 1
    assert (one.request_id, one.cache_salt, one.priority, one.trace_headers) == ("r1", "salt", 3, {"traceparent": "t"})
    assert (other.request_id, other.cache_salt, other.priority, other.trace_headers) == ("r2", None, 0, None)
    assert (len(one.prompt_token_ids), len(other.prompt_token_ids)) == (66, 31)
    marks = [request.sampling_params.extra_args for request in (one, other)]
    assert [(extra[PREFIX_KEY], extra[NUM_KEY], extra[TAIL_KEY]) for extra in marks] == [
        ("ab", 64, [7, 8]),
        ("cd", 30, [9]),
    ]
    assert all(is_sealed(extra, SEAL) for extra in marks)
    assert client.made[0].sampling_params.extra_args is None
    assert one.arrival_time <= other.arrival_time


async def test_each_way_to_sample_is_made_by_vllm() -> None:
    """Whatever a question may ask for makes another one, and it reaches vLLM; the same way comes again for nothing."""
    client = Client()
    requests = Requests(client, SEAL)
    samplings = [
        Sampling(max_tokens=5),
        Sampling(max_tokens=5, min_tokens=2),
        Sampling(max_tokens=5, ignore_eos=True),
        Sampling(max_tokens=5, temperature=0.5),
        Sampling(max_tokens=5, repetition_penalty=1.2),
        Sampling(max_tokens=5, schema="{}"),
    ]
    for sampling in [*samplings, *samplings]:
        await requests.make(Way.of(sampling, 100), FIRST, 64, [7], "r", 0, None)
    made = [request.sampling_params for request in client.made]
    assert len(made) == len(samplings)
    assert [params.min_tokens for params in made] == [0, 2, 0, 0, 0, 0]
    assert [params.ignore_eos for params in made] == [False, False, True, False, False, False]
    assert [params.temperature for params in made] == [0, 0, 0, 0.5, 0, 0]
    assert [params.repetition_penalty for params in made] == [1, 1, 1, 1, 1.2, 1]
    assert [params.structured_outputs for params in made] == [None] * 5 + [SimpleNamespace(json="{}")]
    assert not any(params.detokenize for params in made)


def test_an_answer_has_no_more_tokens_than_there_is_room_for() -> None:
    """Neither at most nor at least."""
    assert Way.of(Sampling(max_tokens=50, min_tokens=20), 10) == Way(max_tokens=10, min_tokens=10)


async def test_what_is_kept_is_bounded() -> None:
    """A client that asks another length each time does not fill the memory; what went is made again."""
    client = Client()
    requests = Requests(client, SEAL)
    for length in range(1, 200):
        await requests.make(Way(max_tokens=length), FIRST, 64, [7], "r", 0, None)
    assert len(requests._made) == 64
    await requests.make(Way(max_tokens=199), FIRST, 64, [7], "r", 0, None)
    assert len(client.made) == 199
    await requests.make(Way(max_tokens=1), FIRST, 64, [7], "r", 0, None)
    assert len(client.made) == 200
