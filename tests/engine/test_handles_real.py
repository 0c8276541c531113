"""Real vLLM with SmolLM2 and our routes in it: handles, what is cached, freed and guarded, and what a restart keeps."""

from __future__ import annotations

import http.client
import json
import random
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from processes import eventually
from shared import SharedEngine

from engine.base import prefix_id
from engine.guard import OPEN
from engine.lease import Lease
from engine.tokenizer import Tokenizer

pytestmark = pytest.mark.engine

BLOCK_SIZE = 32


@dataclass
class Held:
    """The engine, called without a client; the last test starts it anew."""

    shared: SharedEngine

    @property
    def lease(self) -> Lease:
        return self.shared.lease

    def call(self, method: str, path: str, body: Any = None, *, token: bool = True) -> tuple[int, Any]:
        engine = self.lease.engine
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {engine.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(engine.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def stream(self, handle: str, body: dict[str, Any]) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        engine = self.lease.engine
        connection = http.client.HTTPConnection(urlsplit(engine.url).netloc, timeout=120)
        headers = {"Authorization": f"Bearer {engine.token}", "Content-Type": "application/json"}
        connection.request("POST", f"/v1/prefixes/{handle}/generate", json.dumps(body), headers)
        return connection, connection.getresponse()

    def ask(self, handle: str, **fields: Any) -> tuple[list[int], str, dict[str, Any]]:
        """Ids, words and receipt of a whole answer."""
        connection, answer = self.stream(handle, {"token_ids": [28, 30], "max_tokens": 8} | fields)
        lines = answer.read().decode().splitlines()
        connection.close()
        assert answer.status == 200, lines
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line]
        ids = [one for event in events for one in event.get("token_ids", [])]
        return ids, "".join(event.get("text", "") for event in events), events[-1]["receipt"]


@pytest.fixture
def held(shared_engine: SharedEngine) -> Held:
    return Held(shared_engine)


def document(seed: int, num_tokens: int) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(100, 40_000) for _ in range(num_tokens)]


def register(held: Held, ids: list[int], **fields: Any) -> dict[str, Any]:
    status, view = held.call("POST", "/v1/prefixes", {"token_ids": ids, "warm": "no"} | fields)
    assert status == 200, view
    assert isinstance(view, dict)
    return view


def reused(receipt: dict[str, Any]) -> int:
    """Cached tokens without those that were read for this very question."""
    return int(receipt["resident_tokens"] if receipt["waited_for"] == "read" else receipt["cached_tokens"])


def test_without_the_token_no_route_says_anything(held: Held) -> None:
    """Every route that the server lists, vLLM's and ours; health, version and counters are open."""
    status, description = held.call("GET", "/openapi.json")
    assert status == 200
    listed = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}
    ours = {
        ("POST", "/v1/prefixes/x/generate"),
        ("GET", "/v1/prefixes"),
        ("GET", "/v1/cache"),
        ("GET", "/openapi.json"),
    }
    assert len(listed) > 10
    for method, path in listed | ours:
        if not (method == "GET" and path in OPEN):
            assert held.call(method, path, {} if method == "POST" else None, token=False)[0] == 401, path
    with urllib.request.urlopen(f"{held.lease.engine.url}/health", timeout=10) as answer:
        assert answer.status == 200


def test_the_engine_tells_its_features(held: Held) -> None:
    """Probing has asked it; its pool is what vLLM says."""
    status, cache = held.call("GET", "/v1/cache")
    assert status == 200
    assert held.lease.engine.features == cache["features"]
    assert (cache["features"]["core"], cache["features"]["events"]) == (True, True)
    assert cache["block_size"] == BLOCK_SIZE == held.lease.engine.block_size
    assert cache["pool_tokens"] == ((held.lease.engine.num_blocks or 0) - 1) * BLOCK_SIZE


def test_the_second_question_finds_all_whole_blocks(held: Held) -> None:
    """Cold, then warm; each time as foreseen. The handle is the one that anybody can compute."""
    ids = document(1, 1000)
    view = register(held, ids, namespace="kb")
    assert (view["id"], view["state"], view["resident_tokens"]) == (prefix_id("kb", ids), "cold", 0)
    first = held.ask(view["id"], namespace="kb")[2]
    second = held.ask(view["id"], namespace="kb", token_ids=[55, 66, 77])[2]
    assert (reused(first), first["resident_tokens"], first["prompt_tokens"]) == (0, 0, 1002)
    assert first["predicted_cached_tokens"] == first["cached_tokens"]
    assert (second["cached_tokens"], second["predicted_cached_tokens"], second["resident_tokens"]) == (992, 992, 992)
    assert second["output_tokens"] == 8
    _, view = held.call("GET", f"/v1/prefixes/{view['id']}?namespace=kb")
    assert (view["state"], view["resident_tokens"], view["hits"]) == ("warm", 992, 2)


def test_what_is_warmed_needs_no_first_question(held: Held) -> None:
    """Read when it is registered: the first question finds it, and greedy answers repeat."""
    view = register(held, document(2, 700), warm="now")
    assert (view["state"], view["resident_tokens"]) == ("warm", 672)
    answers = [held.ask(view["id"]) for _ in range(2)]
    assert [receipt["cached_tokens"] for _, _, receipt in answers] == [672, 672]
    assert answers[0][0] == answers[1][0]


def test_words_and_stop_strings(held: Held, model_folder: Path) -> None:
    """Words are those of the ids; an answer ends before a stop string that is in it."""
    tokenizer = Tokenizer(model_folder)
    view = register(held, list(tokenizer.encode_text("One two three four five six seven eight nine ten eleven " * 3)))
    tail = list(tokenizer.encode_text("One two three"))
    ids, text, _ = held.ask(view["id"], token_ids=tail, max_tokens=12, text=True)
    assert len(ids) == 12
    assert text == tokenizer.decode(ids)
    stop = text[len(text) // 2 :][:3]
    _, shorter, receipt = held.ask(view["id"], token_ids=tail, max_tokens=12, stop=[stop])
    assert shorter == text[: text.index(stop)]
    assert receipt["output_tokens"] < 12


def test_another_namespace_reads_anew(held: Held) -> None:
    """The same document in two knowledge bases shares no block, and neither can use the other's handle."""
    ids = document(3, 400)
    held.call("POST", "/v1/prefixes", {"token_ids": ids, "namespace": "a", "warm": "now"})
    other = register(held, ids, namespace="b")
    assert (other["state"], reused(held.ask(other["id"], namespace="b")[2])) == ("cold", 0)
    status, answer = held.call("POST", f"/v1/prefixes/{other['id']}/generate", {"namespace": "a", "token_ids": [1]})
    assert (status, answer["error"]["code"]) == (404, "unknown_prefix")


def test_a_freed_prefix_is_cold_again(held: Held) -> None:
    """Unknown at once; when it comes back nothing of it is found, and its sibling is as warm as before."""
    ids, sibling = document(4, 640), document(5, 320)
    view = register(held, ids, namespace="kb", warm="now")
    kept = register(held, sibling, namespace="kb", warm="now")
    assert held.call("DELETE", f"/v1/prefixes/{view['id']}", {"namespace": "kb"})[0] == 200
    assert held.call("GET", f"/v1/prefixes/{view['id']}?namespace=kb")[0] == 404
    again = register(held, ids, namespace="kb")
    assert (again["state"], again["resident_tokens"]) == ("cold", 0)
    assert reused(held.ask(view["id"], namespace="kb")[2]) == 0
    assert held.ask(kept["id"], namespace="kb")[2]["cached_tokens"] == 320


def test_hanging_up_ends_the_answer_in_the_engine(held: Held) -> None:
    """Ten tokens of a thousand are read, then the connection is closed: vLLM runs nothing any more."""
    view = register(held, document(6, 64))
    connection, answer = held.stream(view["id"], {"token_ids": [5], "max_tokens": 2000, "ignore_eos": True})
    for _ in range(20):
        assert answer.readline()
    assert num_running(held) == 1
    connection.close()
    answer.close()
    assert eventually(lambda: num_running(held) == 0, 10)


def num_running(held: Held) -> float:
    with urllib.request.urlopen(f"{held.lease.engine.url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(n) for n in re.findall(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$", text, re.M))


def test_vllms_own_routes_work_beside(held: Held) -> None:
    """Token ids over /v1/completions, unsalted: what our prefixes hold is not found by them."""
    ids = document(7, 320)
    register(held, ids, warm="now")
    body = {"model": held.lease.engine.model, "prompt": [*ids, 5], "max_tokens": 4, "ignore_eos": True}
    status, answer = held.call("POST", "/v1/completions", body)
    assert status == 200
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_vllms_own_routes_read_no_prefix_of_ours(held: Held) -> None:
    """`vllm_xargs` reach the engine core: a client who writes our keys there gets the answer to its own prompt, the
    engine lives, and a question of ours goes on as before."""
    view = register(held, document(13, 500), namespace="secret")
    plain = {"model": held.lease.engine.model, "prompt": document(14, 40), "max_tokens": 4, "temperature": 0}
    num_tokens = view["num_tokens"]
    forged: list[dict[str, Any]] = [
        {"readonce_prefix": view["id"], "readonce_num_tokens": num_tokens, "readonce_tail": [28, 30]},
        {"readonce_prefix": view["id"], "readonce_num_tokens": num_tokens, "readonce_tail": [2**30]},
        {"readonce_prefix": view["id"]},
        {"readonce_prefix": 5, "readonce_seal": "x"},
    ]
    expected = held.call("POST", "/v1/completions", plain)[1]
    for extra in forged:
        status, answer = held.call("POST", "/v1/completions", plain | {"vllm_xargs": extra})
        assert (status, answer["choices"], answer["usage"]["prompt_tokens"]) == (200, expected["choices"], 40)
    assert held.ask(view["id"], namespace="secret")[2]["prompt_tokens"] == num_tokens + 2


def test_predictions_were_right(held: Held) -> None:
    """Every question since the engine's start."""
    _, cache = held.call("GET", "/v1/cache")
    assert cache["wrong_predictions"] == 0
    assert cache["predictions"] >= 10
    assert 0 < cache["hit_rate"] < 1


def test_all_are_warm_again_after_a_restart(held: Held) -> None:
    """Five documents in the order of their last use, without a question; the freed one does not come back."""
    held.shared.free_all()
    handles = [register(held, document(20 + n, 300), namespace="kb", pin=n == 3)["id"] for n in range(5)]
    for handle in (handles[2], handles[0]):
        held.ask(handle, namespace="kb")
    instance = held.lease.engine.instance
    held.shared.restart()
    assert held.lease.engine.instance != instance

    def views() -> list[dict[str, Any]]:
        return list(held.call("GET", "/v1/prefixes")[1]["prefixes"])

    assert eventually(lambda: all(one["state"] == "warm" for one in views()), 60)
    assert [one["id"] for one in views()] == [handles[0], handles[2], handles[4], handles[3], handles[1]]
    assert {one["resident_tokens"] for one in views()} == {288}
    _, cache = held.call("GET", "/v1/cache")
    assert cache["queries_tokens"] == 0
    assert held.ask(handles[4], namespace="kb")[2]["cached_tokens"] == 288
