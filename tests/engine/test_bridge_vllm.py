"""How vLLM's refusals and failures become ours, over a client that answers as vLLM's does; it needs no vLLM."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.base import EngineError, Sampling
from engine.bridge_vllm import VllmBridge, open_bridge
from engine.core import PREFIX_KEY, mark
from engine.registered import Registered

PREFIX = Registered("ab", "kb", "", np.arange(64, dtype=np.int32), "salt")


class ClientError(Exception):
    """The newer vLLM's; an older one raises ValueError."""


class Parameters(SimpleNamespace):
    """Refuses what vLLM refuses."""

    refusal: type[Exception] = ValueError

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if self.temperature > 2:
            raise self.refusal(f"temperature must be in [0, 2], got {self.temperature}.")


class Client:
    """vLLM's `AsyncLLM`: gives the finish reasons that the test names."""

    vllm_config = SimpleNamespace(
        cache_config=SimpleNamespace(block_size=32, num_gpu_blocks=9),
        model_config=SimpleNamespace(max_model_len=256),
        device_config=SimpleNamespace(device_type="cpu"),
        scheduler_config=SimpleNamespace(policy="fcfs"),
    )

    def __init__(self, *reasons: str | None) -> None:
        self._reasons = reasons
        self.asked: list[tuple[Any, ...]] = []

    async def generate(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        self.asked.append(arguments)
        for reason in self._reasons:
            given = SimpleNamespace(token_ids=[5], finish_reason=reason)
            yield SimpleNamespace(outputs=[given], num_cached_tokens=32, finished=reason is not None, metrics=None)


@pytest.fixture(autouse=True)
def _vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names that the bridge takes from vLLM."""
    parts: dict[str, dict[str, Any]] = {
        "vllm": {"SamplingParams": Parameters},
        "vllm.exceptions": {"VLLMClientError": ClientError},
        "vllm.sampling_params": {
            "RequestOutputKind": SimpleNamespace(DELTA=1),
            "StructuredOutputsParams": SimpleNamespace,
        },
        "vllm.inputs": {},
        "vllm.inputs.engine": {"tokens_input": lambda ids, **salt: ids},
        "vllm.v1": {},
        "vllm.v1.engine": {},
        "vllm.v1.engine.exceptions": {
            "EngineDeadError": type("Dead", (Exception,), {}),
            "EngineGenerateError": type("Failed", (Exception,), {}),
        },
    }
    for name, values in parts.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    vars(sys.modules["vllm"])["exceptions"] = sys.modules["vllm.exceptions"]


@pytest.mark.parametrize("refusal", [ValueError, ClientError, RecursionError])
async def test_what_vllm_refuses_of_a_question_is_the_askers_to_mend(
    monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]
) -> None:
    """A bad request with vLLM's own words, not a failure of the engine."""
    monkeypatch.setattr(Parameters, "refusal", refusal)
    with pytest.raises(EngineError) as caught:
        await anext(VllmBridge(Client("stop")).generate(PREFIX, [1], Sampling(temperature=3.0), "r"))
    assert caught.value.code == "bad_request"
    assert "temperature must be in [0, 2]" in caught.value.message


async def test_an_error_in_the_core_is_no_end_of_an_answer() -> None:
    """A prefix whose ids are gone there, for one: the question fails, it does not end as if it had been aborted."""
    outputs = VllmBridge(Client(None, "error")).generate(PREFIX, [1], Sampling(), "r1")
    assert (await anext(outputs)).token_ids == (5,)
    with pytest.raises(EngineError) as caught:
        await anext(outputs)
    assert (caught.value.code, "r1" in caught.value.message) == ("engine_failed", True)


@pytest.mark.parametrize("reasons", [("error",), ("abort",), ()])
async def test_a_read_that_did_not_happen_is_not_taken_for_one(reasons: tuple[str, ...]) -> None:
    """Else its prefix would be believed to be cached."""
    with pytest.raises(EngineError) as caught:
        await VllmBridge(Client(*reasons)).read(PREFIX, 32, 10, "r")
    assert caught.value.code == "engine_failed"
    assert await VllmBridge(Client("length")).read(PREFIX, 32, 10, "r") == 32


async def test_a_schema_becomes_vllms_structured_output() -> None:
    """As the text that came; without one, nothing is guided."""
    client = Client("stop")
    for schema in ('{"type": "integer"}', ""):
        async for _ in VllmBridge(client).generate(PREFIX, [1], Sampling(schema=schema), "r"):
            pass
    held, free = [arguments[1].structured_outputs for arguments in client.asked]
    assert (held, free) == (SimpleNamespace(json='{"type": "integer"}'), None)


class Core:
    """The way into vLLM's engine core; keeps what went in."""

    def __init__(self) -> None:
        self.added: list[Any] = []

    async def add_request_async(self, request: Any) -> None:
        self.added.append(request)


async def test_a_mark_of_a_clients_own_making_does_not_reach_the_core() -> None:
    """vLLM's OpenAI routes take `vllm_xargs`: whoever wrote our keys there would read any namespace's prefix, with ids
    that nobody checked. The request goes on as the client's own prompt; only what this front end sealed is a mark."""
    client = Client()
    core = client.engine_core = Core()  # type: ignore[attr-defined]
    bridge = open_bridge(client, uses_core=True)
    assert isinstance(bridge, VllmBridge)
    ours = mark({"a": 1}, "ab", 64, [7], bridge.seal)
    forged: list[dict[str, Any]] = [
        mark({"a": 1}, "ab", 64, [2**30], "guessed"),
        {"a": 1, PREFIX_KEY: "ab"},
        {"a": 1, PREFIX_KEY: 5, "readonce_seal": [1, "x"]},
        {"a": 1, PREFIX_KEY: "ab", "readonce_seal": "\ud800"},
    ]
    for extra in (ours, *forged, {"a": 1}, None):
        sampling = SimpleNamespace(extra_args=extra)
        await core.add_request_async(SimpleNamespace(sampling_params=sampling, prompt_token_ids=[1, 2]))
        assert sampling.extra_args is extra  # the front end's own copy is left as it is
    await core.add_request_async(SimpleNamespace(sampling_params=None, prompt_token_ids=[1, 2]))  # of a pooling model
    sent = [(one.sampling_params and one.sampling_params.extra_args, one.prompt_token_ids) for one in core.added]
    assert sent == [(ours, [0]), *[({"a": 1}, [1, 2])] * 5, (None, [1, 2]), (None, [1, 2])]
