"""Decides how a command without an event loop looks into a running engine's cache, and frees what is not needed."""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from engine.base import EngineError
from engine.errors import of_answer
from engine.server import RunningEngine
from engine.view import CacheView

_TIMEOUT_S = 5.0


def look(running: RunningEngine) -> CacheView | None:
    """What the engine says of its cache; None where it has no route for it, or does not answer now."""
    if running.features is None:
        return None
    try:
        return CacheView.from_json(_call(running, "GET", "/v1/cache"))
    except EngineError:
        return None


def free_named(running: RunningEngine, namespace: str, is_meant: Callable[[str], bool]) -> int:
    """Frees the prefixes of `namespace` whose name `is_meant`; returns how many there were.

    Raises:
        EngineError: What the engine refused, or `engine_unreachable`.
    """
    view = look(running)
    meant = [one for one in view.prefixes if one.namespace == namespace and is_meant(one.name)] if view else []
    for one in meant:
        _call(running, "DELETE", f"/v1/prefixes/{one.id}", {"namespace": namespace})
    return len(meant)


def _call(running: RunningEngine, method: str, route: str, body: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(
        running.url + route,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {running.token}"} if running.token else {}),
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            text = answer.read()
        with contextlib.suppress(ValueError):
            return json.loads(text)
    except urllib.error.HTTPError as error:
        if error.code == 404 and method == "DELETE":
            return None  # it has gone meanwhile
        raise of_answer(error.code, error.read().decode("utf-8", "replace"), running.url) from error
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(
            "engine_unreachable", f"The engine at {running.url} does not answer ({error}); look whether it runs."
        ) from error
    return None
