"""Decides what a person reads where a server refuses, fails or is gone: one sentence for each of its errors."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from engine.base import EngineError

_ABOUT_ITSELF = re.compile(r"[.\s]*See stack trace.*")  # "EngineCore encountered an issue. See stack trace (above) ..."
_TOO_LONG = re.compile(r"maximum context length|input_tokens|max_model_len|context length", re.IGNORECASE)


@asynccontextmanager
async def translated(url: str) -> AsyncIterator[None]:
    """Turns what the HTTP client raises inside the block into EngineError."""
    import openai

    try:
        yield
    except openai.APITimeoutError as error:
        raise no_connection(url) from error
    except openai.APIConnectionError as error:
        raise gone(url) from error
    except openai.APIStatusError as error:
        raise _of_status(error.status_code, _message(error), url) from error
    except openai.APIError as error:  # an error inside a stream that had begun well
        raise _in_the_middle(_message(error), url) from error
    except Exception as error:
        if not type(error).__module__.startswith(("httpx", "httpcore", "anyio")):
            raise
        raise broken_off(url) from error


def other_version(error: Exception, url: str) -> EngineError:
    """An answer that does not read."""
    return EngineError(
        "engine_failed",
        f"The engine at {url} answers in another way than this program reads ({type(error).__name__}: {error}); "
        "run the same version of readonce on both sides.",
    )


def of_answer(status: int, body: str, url: str) -> EngineError:
    """A refusal of our routes, in its own words and with its own code; or of the server around them."""
    try:
        told: Any = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError):
        return _of_status(status, _line(body), url)
    if isinstance(told, dict) and isinstance(told.get("code"), str):
        return EngineError(told["code"], str(told.get("message")))
    return _of_status(status, _line(told.get("message") if isinstance(told, dict) else told), url)


def of_event(told: Any, url: str) -> EngineError:
    """An error inside a stream that had begun well."""
    if isinstance(told, dict) and isinstance(told.get("code"), str):
        return EngineError(told["code"], str(told.get("message")))
    return _in_the_middle(_line(told.get("message") if isinstance(told, dict) else told), url)


def broken_off(url: str) -> EngineError:
    """An answer that has no end."""
    return EngineError(
        "engine_unreachable", f"The connection to the engine at {url} broke in the middle of the answer; ask once more."
    )


def no_connection(url: str) -> EngineError:
    """It listens, and does not answer."""
    return EngineError(
        "engine_unreachable", f"The engine at {url} does not take the connection; look whether it is overloaded."
    )


def gone(url: str) -> EngineError:
    """Nobody listens."""
    return EngineError("engine_unreachable", f"The engine at {url} is gone; start it again and ask once more.")


def _in_the_middle(message: str, url: str) -> EngineError:
    return EngineError(
        "engine_failed", f"The engine at {url} failed in the middle of the answer: {message}; ask once more."
    )


def _of_status(status: int, message: str, url: str) -> EngineError:
    if status == 400 and _TOO_LONG.search(message):
        return EngineError(
            "prompt_too_long",
            f"The prompt is too long for the engine ({message}); ask about fewer pages or begin a new conversation.",
        )
    if status in (401, 403):
        return EngineError(
            "engine_failed", f"The engine at {url} wants another API key (HTTP {status}); set it (engine_token)."
        )
    if status == 404:
        return EngineError("engine_failed", f"The engine at {url} does not know the model or the route: {message}.")
    return EngineError("engine_failed", f"The engine at {url} failed (HTTP {status}): {message}; look into its log.")


def _message(error: Exception) -> str:
    """The server's own words."""
    body = getattr(error, "body", None)
    words = body.get("message") if isinstance(body, dict) else None
    return _line(words or error)


def _line(words: object) -> str:
    """On one line, shortened."""
    return _ABOUT_ITSELF.sub("", " ".join(str(words).split()))[:300].rstrip(".")
