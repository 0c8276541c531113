"""Decides what a person reads where a server refuses, fails or is gone: one sentence for each of its errors."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
        raise EngineError(
            "engine_unreachable", f"The engine at {url} does not take the connection; look whether it is overloaded."
        ) from error
    except openai.APIConnectionError as error:
        raise EngineError(
            "engine_unreachable", f"The engine at {url} is gone; start it again and ask once more."
        ) from error
    except openai.APIStatusError as error:
        raise _of_status(error.status_code, _message(error), url) from error
    except openai.APIError as error:  # an error inside a stream that had begun well
        raise EngineError(
            "engine_failed",
            f"The engine at {url} failed in the middle of the answer: {_message(error)}; ask once more.",
        ) from error
    except Exception as error:
        if not type(error).__module__.startswith(("httpx", "httpcore", "anyio")):
            raise
        raise broken_off(url) from error


def broken_off(url: str) -> EngineError:
    """An answer that has no end."""
    return EngineError(
        "engine_unreachable", f"The connection to the engine at {url} broke in the middle of the answer; ask once more."
    )


def _of_status(status: int, message: str, url: str) -> EngineError:
    if status == 400 and _TOO_LONG.search(message):
        return EngineError(
            "prompt_too_long",
            f"The prompt is too long for the engine ({message}); ask about fewer pages or begin a new conversation.",
        )
    if status in (401, 403):
        return EngineError("engine_failed", f"The engine at {url} wants another API key (HTTP {status}); set it.")
    if status == 404:
        return EngineError("engine_failed", f"The engine at {url} does not know the model or the route: {message}.")
    return EngineError("engine_failed", f"The engine at {url} failed (HTTP {status}): {message}; look into its log.")


def _message(error: Exception) -> str:
    """The server's own words, on one line, shortened."""
    body = getattr(error, "body", None)
    words = body.get("message") if isinstance(body, dict) else None
    return _ABOUT_ITSELF.sub("", " ".join(str(words or error).split()))[:300].rstrip(".")
