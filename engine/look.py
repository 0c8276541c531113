"""Decides how a command looks into an engine's cache: one GET /v1/cache, or None where the server has no such route."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request

from engine.base import EngineError
from engine.view import CacheView

_TIMEOUT_S = 5.0


def look(url: str, token: str | None = None, timeout_s: float = _TIMEOUT_S) -> CacheView | None:
    """The cache of the engine at `url` (without /v1). Blocking.

    Raises:
        EngineError: `engine_unreachable`; `engine_failed` where it refuses, or its answer does not read.
    """
    request = urllib.request.Request(f"{url}/v1/cache", headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return CacheView.from_json(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        if error.code in (404, 405):
            return None
        if error.code == 401:
            raise EngineError(
                "engine_failed", f"The engine at {url} wants another token; set READONCE_ENGINE_TOKEN to the right one."
            ) from error
        raise EngineError(
            "engine_failed", f"The engine at {url} does not show its cache (HTTP {error.code}); look into its log."
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(
            "engine_unreachable", f"No engine answers at {url} ({error}); check the address, or start it there."
        ) from error
    except ValueError as error:
        raise EngineError(
            "engine_failed", f"What answers at {url}/v1/cache sends no JSON ({error}); check the address."
        ) from error
