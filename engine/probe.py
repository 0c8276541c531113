"""Decides what a server says about itself: whether it is ready, its model, its length, its cache, its life."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from engine.base import EngineError
from engine.served import card_of
from engine.server import EngineSettings, RunningEngine

_TIMEOUT_S = 5.0
# A server that does not say how long its context is: what every current model can read.
_UNKNOWN_MAX_MODEL_LEN = 8192


def is_ready(url: str) -> bool:
    """Whether the server at `url` answers its health route."""
    try:
        _get(url, "/health", timeout_s=1.0)
    except (OSError, http.client.HTTPException):
        return False
    return True


def is_there(url: str) -> bool:
    """Whether anything listens at `url`, ready, busy or without such a route."""
    try:
        _get(url, "/health", timeout_s=1.0)
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, TimeoutError)
    except (OSError, http.client.HTTPException):
        return True
    return True


def base_url(url: str) -> str:
    """`url` without a trailing slash and without `/v1`."""
    return re.sub(r"/v1$", "", url.rstrip("/"))


def probe(
    url: str,
    *,
    instance: str = "",
    pid: int | None = None,
    folder: Path | None = None,
    started: float | None = None,
    token: str | None = None,
    model: str | None = None,
    served_as: str | None = None,
) -> RunningEngine:
    """Asks a server what it is.

    Args:
        instance: Known for our own engine; for another one it follows from when its process began, if it tells.
        token: Its API key, where it wants one.
        model, served_as: What it has to serve, as in `served.card_of`; None: whatever it serves first.

    Raises:
        EngineError: `engine_unreachable` where nobody answers, `token_refused` where the token is missing or wrong,
            `engine_failed` where the answer is no model list, `other_model` where `model` is not in it.
    """
    url = base_url(url)
    if token and not (token.isascii() and token.isprintable()):
        raise EngineError(
            "token_refused",
            "The token holds characters that can't stand in a header; set READONCE_ENGINE_TOKEN to the API key that "
            f"the server at {url} was started with.",
        )
    try:
        cards = json.loads(_get(url, "/v1/models", token=token))["data"]
        card = cards[0] if model is None else card_of(cards, model, served_as, url)
        name = str(card["id"])
        max_model_len = int(card.get("max_model_len") or _UNKNOWN_MAX_MODEL_LEN)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise EngineError(
                "token_refused",
                f"The server at {url} {'does not take this token' if token else 'wants a token'} (HTTP {error.code}); "
                "set READONCE_ENGINE_TOKEN to the API key that it was started with.",
            ) from error
        raise EngineError(
            "engine_failed", f"The server at {url} refuses to list its models (HTTP {error.code}); check the address."
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(
            "engine_unreachable",
            f"No engine answers at {url} ({_reason(error)}); check the address, or start it there.",
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise EngineError(
            "engine_failed", f"What answers at {url} is no OpenAI-compatible server (no model list); check the address."
        ) from error
    metrics = _try(url, "/metrics")
    cache = _labels(metrics, "vllm:cache_config_info")
    return RunningEngine(
        url=url,
        model=name,
        instance=instance or _instance_of(url, metrics),
        max_model_len=max_model_len,
        version=_version(url),
        block_size=_number(cache.get("block_size")),
        num_blocks=_number(cache.get("num_gpu_blocks")),
        pid=pid,
        folder=folder,
        started=started,
        token=token,
        features=_features(url, token),
    )


def probe_elsewhere(settings: EngineSettings) -> RunningEngine:
    """The engine at `settings.url`. Raises EngineError as `probe`."""
    assert settings.url is not None
    return probe(settings.url, token=settings.token, model=settings.model, served_as=settings.served_as)


def _instance_of(url: str, metrics: str) -> str:
    began = re.search(r"^process_start_time_seconds(?:\{.*\})? (\S+)$", metrics, re.MULTILINE)
    return hashlib.sha256(f"{url} {began.group(1) if began else ''}".encode()).hexdigest()[:16]


def _labels(metrics: str, name: str) -> dict[str, str]:
    line = re.search(rf"^{re.escape(name)}\{{(.*)\}}", metrics, re.MULTILINE)
    return dict(re.findall(r'(\w+)="([^"]*)"', line.group(1))) if line else {}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _version(url: str) -> str:
    try:
        answer: Any = json.loads(_try(url, "/version"))
        return str(answer["version"])
    except (ValueError, LookupError, TypeError):
        return ""


def _features(url: str, token: str | None) -> dict[str, bool] | None:
    """None where the server has none of our routes."""
    try:
        told: Any = json.loads(_try(url, "/v1/cache", token))["features"]
        return {str(name): bool(value) for name, value in told.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _try(url: str, route: str, token: str | None = None) -> str:
    try:
        return _get(url, route, token=token)
    except (OSError, http.client.HTTPException):
        return ""


def _get(url: str, route: str, timeout_s: float = _TIMEOUT_S, token: str | None = None) -> str:
    if not url.startswith(("http://", "https://")):
        raise EngineError("engine_unreachable", f"{url} is no address of an engine; write http://HOST:PORT.")
    request = urllib.request.Request(url + route)
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        return str(answer.read().decode("utf-8", "replace"))


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(error).__name__
