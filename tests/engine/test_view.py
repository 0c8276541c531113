"""What GET /v1/cache answers reads the same on both sides, and what is no such answer is refused by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import VIEW, view

from engine.base import EngineError
from engine.look import look
from engine.view import CacheView, PrefixView


@given(st.builds(CacheView, prefixes=st.lists(st.builds(PrefixView), max_size=3).map(tuple)))
def test_a_view_comes_back_through_json(one: CacheView) -> None:
    """Every field survives the way over the wire, unknown figures (None) too."""
    assert CacheView.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_hit_rate_is_sent_and_worked_out_again() -> None:
    """Programs that read the JSON find the rate in it; before the first question there is none."""
    assert VIEW.to_json()["hit_rate"] == VIEW.hit_rate == 0.9
    assert view(queries_tokens=0, hits_tokens=0).to_json()["hit_rate"] is None


def test_a_newer_servers_fields_are_passed_over_and_an_older_ones_have_defaults() -> None:
    """Both sides need not be of the same version."""
    answer = {"pool_tokens": 64, "block_size": 32, "instance": "x", "colour": "blue", "queue": {"read": 2, "snow": 1}}
    read = CacheView.from_json(answer)
    assert (read.pool_tokens, read.queue.read, read.queue.room, read.evicted_blocks) == (64, 2, 0, None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"pool_tokens": "many"}, "pool_tokens has to be a value of type int"),
        ({"pool_tokens": True}, "pool_tokens"),
        ({"instance": None}, "instance"),
        ({"prefixes": {}}, "prefixes has to be a list"),
        ({"prefixes": [VIEW.to_json()["prefixes"][0] | {"state": "lukewarm"}]}, "state has to be one of cold, warming"),
        ({"queue": 3}, "queue has to be an object"),
    ],
)
def test_what_does_not_read_is_named(change: dict[str, object], named: str) -> None:
    """An answer of another program is refused with the field that is wrong."""
    with pytest.raises(EngineError, match=named) as refused:
        CacheView.from_json(VIEW.to_json() | change)
    assert refused.value.code == "engine_failed"


def test_a_field_that_must_be_there_is_named() -> None:
    """Without a pool there is nothing to show."""
    with pytest.raises(EngineError, match="pool_tokens has to be given"):
        CacheView.from_json({"block_size": 32, "instance": "x"})
    with pytest.raises(EngineError, match="the answer has to be an object"):
        CacheView.from_json([])


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/v1/cache":
            self.send_error(404)
        elif self.headers.get("Authorization") != "Bearer secret":
            self.send_error(401)
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(VIEW.to_json()).encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_look_needs_the_token_and_tells_a_plain_server_apart(url: str) -> None:
    """The right token: the view. A server without the route: None. A wrong token, or nobody there: one sentence."""
    assert look(url, "secret") == VIEW
    assert look(f"{url}/elsewhere", "secret") is None
    with pytest.raises(EngineError, match="wants another token"):
        look(url, "guess")
    with pytest.raises(EngineError) as unreachable:
        look("http://127.0.0.1:9")
    assert unreachable.value.code == "engine_unreachable"
