"""How a command frees prefixes by name: those of one namespace, where the engine has the routes for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from http_double import Double, serving

from engine.base import EngineError
from engine.free import free_named
from engine.server import RunningEngine
from engine.view import CacheView, PrefixView

NAMES = [("1", "kb", "kb/a.md/1"), ("2", "kb", "kb/b.md/1"), ("3", "other", "kb/a.md/1"), ("4", "kb", "kb/a.md/2")]
VIEW = CacheView(
    1_000, 32, "i", prefixes=tuple(PrefixView(handle, kb, name, 64, 0, "cold") for handle, kb, name in NAMES)
)


@pytest.fixture
def double() -> Iterator[Double]:
    with serving(Double()) as served:
        served.route = lambda method, path, body: (200, VIEW.to_json() if method == "GET" else {})
        yield served


def running(double: Double) -> RunningEngine:
    return RunningEngine(double.url, "m", "i", 100, token="t", features={})


def of_a(name: str) -> bool:
    return name.startswith("kb/a.md/")


def test_only_what_is_meant_in_its_namespace_is_freed(double: Double) -> None:
    """With the token, and the namespace that the handle belongs to."""
    assert free_named(running(double), "kb", of_a) == 2
    assert double.requests == [
        ("GET", "/v1/cache", "Bearer t"),
        ("DELETE", "/v1/prefixes/1", "Bearer t"),
        ("DELETE", "/v1/prefixes/4", "Bearer t"),
    ]
    assert double.bodies[1:] == [{"namespace": "kb"}] * 2


def test_server_without_our_routes_is_not_asked(double: Double) -> None:
    """There is nothing to free."""
    assert free_named(replace(running(double), features=None), "kb", of_a) == 0
    assert double.requests == []


def test_prefix_that_has_gone_meanwhile_is_no_failure(double: Double) -> None:
    """Another refusal is, with the server's own code."""
    answers: list[tuple[int, Any]] = [(404, {}), (200, {}), (503, {"error": {"code": "busy", "message": "Later."}})]
    double.route = lambda method, path, body: (200, VIEW.to_json()) if method == "GET" else answers.pop(0)
    assert free_named(running(double), "kb", of_a) == 2
    with pytest.raises(EngineError, match="Later") as caught:
        free_named(running(double), "kb", of_a)
    assert caught.value.code == "busy"


def test_engine_that_is_gone_is_one_sentence() -> None:
    """Whoever removes a document logs it."""
    with pytest.raises(EngineError) as caught:
        free_named(RunningEngine("http://127.0.0.1:9", "m", "i", 100, features={}), "kb", of_a)
    assert caught.value.code == "engine_unreachable"
