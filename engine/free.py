"""Decides how a command without an event loop frees prefixes of a running engine, by their name."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable

from engine.base import EngineError
from engine.errors import of_answer
from engine.look import look
from engine.server import RunningEngine

_TIMEOUT_S = 5.0


def free_named(running: RunningEngine, namespace: str, is_meant: Callable[[str], bool]) -> int:
    """Frees the prefixes of `namespace` whose name `is_meant`; returns how many there were.

    Raises:
        EngineError: What the engine refused, or `engine_unreachable`.
    """
    view = look(running.url, running.token) if running.features is not None else None
    meant = [one for one in view.prefixes if one.namespace == namespace and is_meant(one.name)] if view else []
    for one in meant:
        _free(running, namespace, one.id)
    return len(meant)


def _free(running: RunningEngine, namespace: str, handle: str) -> None:
    request = urllib.request.Request(
        f"{running.url}/v1/prefixes/{handle}",
        method="DELETE",
        data=json.dumps({"namespace": namespace}).encode(),
        headers={"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {running.token}"} if running.token else {}),
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        if error.code != 404:  # it may have gone meanwhile
            raise of_answer(error.code, error.read().decode("utf-8", "replace"), running.url) from error
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(
            "engine_unreachable", f"The engine at {running.url} does not answer ({error}); look whether it runs."
        ) from error
