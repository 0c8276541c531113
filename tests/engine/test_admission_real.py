"""Real vLLM with SmolLM2: what first questions at once cost, and what a warm one waits for while a cold text is read.

Beside each stands the same through vLLM's own route in the same server, which knows no door: `pytest -s` shows both.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from processes import eventually
from shared import SharedEngine

from engine.lease import Lease

pytestmark = pytest.mark.engine

COLD_TOKENS = 6016
TAIL = 16


@dataclass(frozen=True)
class Heard:
    """A question's first token, and what the engine computed meanwhile.

    Attributes:
        computed_tokens: Prompt tokens that the engine computed between the question and its first token.
    """

    first_token_s: float
    computed_tokens: float
    receipt: dict[str, Any]


@pytest.fixture
def lease(shared_engine: SharedEngine) -> Lease:
    return shared_engine.lease


def text(seed: int, num_tokens: int) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(100, 40_000) for _ in range(num_tokens)]


def send(lease: Lease, method: str, path: str, body: Any = None) -> tuple[http.client.HTTPConnection, Any]:
    connection = http.client.HTTPConnection(urlsplit(lease.engine.url).netloc, timeout=300)
    headers = {"Authorization": f"Bearer {lease.engine.token}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    return connection, answer


def call(lease: Lease, method: str, path: str, body: Any = None) -> Any:
    connection, answer = send(lease, method, path, body)
    try:
        return json.loads(answer.read())
    finally:
        connection.close()


def computed_tokens(lease: Lease) -> float:
    """Prompt tokens that the engine computed since its start."""
    return metric(lease, r'vllm:prompt_tokens_by_source_total\{[^}]*source="local_compute"[^}]*\}')


def num_running(lease: Lease) -> float:
    """Requests in the engine, as of its last step."""
    return metric(lease, r"vllm:num_requests_running\{[^}]*\}")


def metric(lease: Lease, pattern: str) -> float:
    connection, answer = send(lease, "GET", "/metrics")
    page = answer.read().decode()
    connection.close()
    (value,) = re.findall(rf"^{pattern} (\S+)$", page, re.M)
    return float(value)


def hear(lease: Lease, path: str, body: dict[str, Any]) -> Heard:
    """Asks, and reads the stream to its end."""
    before = computed_tokens(lease)
    asked = time.perf_counter()
    connection, answer = send(lease, "POST", path, body)
    lines = (line.decode().removeprefix("data: ").strip() for line in answer)
    events = (line for line in lines if line and line != "[DONE]")
    next(events)
    first_token_s = time.perf_counter() - asked
    computed = computed_tokens(lease) - before
    last = {}
    for event in events:
        last = json.loads(event)
    connection.close()
    return Heard(first_token_s, computed, last.get("receipt", {}))


def ask(lease: Lease, handle: str, seed: int) -> Heard:
    body = {"token_ids": text(seed, TAIL), "max_tokens": 4, "ignore_eos": True}
    return hear(lease, f"/v1/prefixes/{handle}/generate", body)


def ask_plain(lease: Lease, ids: list[int], seed: int) -> Heard:
    prompt = [*ids, *text(seed, TAIL)]
    body = {"model": lease.engine.model, "prompt": prompt, "max_tokens": 4, "stream": True, "temperature": 0}
    return hear(lease, "/v1/completions", body | {"ignore_eos": True})


def register(lease: Lease, ids: list[int], warm: str = "no") -> str:
    return str(call(lease, "POST", "/v1/prefixes", {"token_ids": ids, "warm": warm})["id"])


def queue(lease: Lease) -> dict[str, Any]:
    view = call(lease, "GET", "/v1/cache")
    assert isinstance(view, dict)
    return view


def test_eight_first_questions_at_once_cost_one_prefill(lease: Lease) -> None:
    """At most 1.1 times the document's tokens are computed, the eight tails and the steps' own tokens counted."""
    num_tokens = 3008
    handle = register(lease, text(1, num_tokens))
    before, joined = computed_tokens(lease), queue(lease)["joined_questions"]
    with ThreadPoolExecutor(8) as pool:
        heard = list(pool.map(lambda seed: ask(lease, handle, seed), range(100, 108)))
    computed = computed_tokens(lease) - before
    print(f"\n8 first questions at once on {num_tokens:,} tokens: {computed:,.0f} computed")
    assert num_tokens <= computed <= 1.1 * num_tokens
    assert {one.receipt["waited_for"] for one in heard} == {"read"}
    assert {one.receipt["cached_tokens"] for one in heard} == {num_tokens // 32 * 32}
    assert queue(lease)["joined_questions"] - joined == 7


def test_a_warm_question_waits_for_one_step_of_a_cold_text(lease: Lease) -> None:
    """While 6,016 cold tokens are read, a warm question has its first token within a small part of them.

    Through vLLM's own route it waits for all that is left: at least five times as much, for most questions here.
    """
    warm_ids = text(2, 1000)
    warm = register(lease, warm_ids, warm="now")
    cold = register(lease, text(3, COLD_TOKENS))
    reads = queue(lease)["reads"]
    reader = threading.Thread(target=ask, args=(lease, cold, 200))
    reader.start()
    assert eventually(lambda: queue(lease)["reads"] > reads)
    heard = [ask(lease, warm, seed) for seed in range(300, 306)]
    assert reader.is_alive(), "the cold text was read before the questions were through: the test proves nothing"
    reader.join()
    assert {one.receipt["waited_for"] for one in heard} == {None}
    assert {one.receipt["cached_tokens"] for one in heard} == {992}

    ask_plain(lease, warm_ids, 400)
    before = computed_tokens(lease)
    reader = threading.Thread(target=ask_plain, args=(lease, text(4, COLD_TOKENS), 401))
    reader.start()
    assert eventually(lambda: num_running(lease) > 0)
    plain = ask_plain(lease, warm_ids, 402)
    reader.join()
    assert computed_tokens(lease) - before >= COLD_TOKENS

    waits = ", ".join(f"{one.first_token_s:.2f}" for one in heard)
    tokens = ", ".join(f"{one.computed_tokens:,.0f}" for one in heard)
    print(
        f"\na warm question while {COLD_TOKENS:,} cold tokens are read: {waits} s ({tokens} tokens computed meanwhile)"
    )
    print(f"through vLLM's own route: {plain.first_token_s:.2f} s ({plain.computed_tokens:,.0f} tokens)")
    assert plain.computed_tokens >= COLD_TOKENS
    assert max(one.computed_tokens for one in heard) <= plain.computed_tokens / 3  # two steps may end while it waits
    assert statistics.median(one.computed_tokens for one in heard) <= plain.computed_tokens / 5
