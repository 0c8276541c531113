"""Decides how our routes are called over HTTP: path, body, and what the server's lines and refusals mean."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import quote

import numpy as np

from engine.base import EngineError, FinishReason, Handle, Prefix, PrefixState, Sampling
from engine.connections import Answer, Connections
from engine.errors import of_answer, of_event, other_version
from engine.server import RunningEngine

Warm = Literal["now", "background", "no"]


@dataclass(frozen=True)
class Piece:
    """Some of an answer. `text` is empty where only ids were asked for."""

    token_ids: list[int]
    text: str


@dataclass(frozen=True)
class End:
    """The last event of an answer.

    Attributes:
        cached_tokens: Of the prompt, what had not to be computed for this question; None where not reported.
    """

    reason: FinishReason
    prompt_tokens: int
    cached_tokens: int | None


class UnknownPrefixError(EngineError):
    """The server knows no such handle: it has to be registered."""

    def __init__(self, url: str) -> None:
        super().__init__(
            "unknown_prefix",
            f"The engine at {url} does not know this prefix, or has lost readonce's routes; "
            "start it with VLLM_PLUGINS=readonce and ask once more.",
        )


class HandleCalls:
    """The routes of one server, for one event loop."""

    def __init__(self, running: RunningEngine) -> None:
        self._url = running.url
        self._connections = Connections(running.url, running.token)

    async def register(
        self, prefix: Prefix, warm: Warm, ttl_s: float | None = None, pin: bool = False, session: str | None = None
    ) -> Handle:
        """Makes a prefix known: the one call that its ids travel with."""
        ids = np.asarray(prefix.token_ids, dtype="<i4").tobytes()
        body = _life(prefix, warm, ttl_s, pin, session)
        body |= {"name": prefix.name, "token_ids_b64": base64.b64encode(ids).decode()}
        return _handle(prefix, await self._call("POST", "/v1/prefixes", body))

    async def change(
        self, prefix: Prefix, warm: Warm, ttl_s: float | None = None, pin: bool = False, session: str | None = None
    ) -> Handle:
        """As `register`, for a handle that the server knows. Raises UnknownPrefixError."""
        body = _life(prefix, warm, ttl_s, pin, session)
        return _handle(prefix, await self._call("PATCH", f"/v1/prefixes/{prefix.id}", body))

    async def free(self, prefix: Prefix) -> None:
        with contextlib.suppress(UnknownPrefixError):
            await self._call("DELETE", f"/v1/prefixes/{prefix.id}", {"namespace": prefix.namespace})

    async def release(self, session: str) -> None:
        with contextlib.suppress(UnknownPrefixError):
            await self._call("DELETE", f"/v1/sessions/{quote(session, safe='')}", {})

    @contextlib.asynccontextmanager
    async def generate(
        self, prefix: Prefix, tail_ids: tuple[int, ...], sampling: Sampling, text: bool, headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncGenerator[Piece | End, None]]:
        """The events of an answer; leaving the block closes the connection, and so aborts it in the engine.

        Args:
            headers: What a trace continues from.

        Raises:
            UnknownPrefixError: Before anything was asked.
        """
        body = {
            "namespace": prefix.namespace,
            "token_ids": tail_ids,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "repetition_penalty": sampling.repetition_penalty,
            "min_tokens": sampling.min_tokens,
            "ignore_eos": sampling.ignore_eos,
            "stop": sampling.stop,
            "priority": sampling.priority,
            "text": text,
        }
        if sampling.schema:  # an older server does not know the field
            body["schema"] = sampling.schema
        async with self._asked("POST", f"/v1/prefixes/{prefix.id}/generate", body, headers) as answer:
            try:
                yield _events(answer, self._url)
            except (ValueError, LookupError, TypeError) as error:
                raise other_version(error, self._url) from error

    async def close(self) -> None:
        await self._connections.close()

    async def _call(self, method: str, route: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self._asked(method, route, body) as answer:
            text = await answer.read()
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise other_version(error, self._url) from error

    @contextlib.asynccontextmanager
    async def _asked(
        self, method: str, route: str, body: dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Answer]:
        async with self._connections.request(method, route, json.dumps(body).encode(), headers) as answer:
            if answer.status >= 400:
                words = (await answer.read()).decode("utf-8", "replace")
                if answer.status == 404:
                    raise UnknownPrefixError(self._url)
                raise of_answer(answer.status, words, self._url)
            yield answer


def _life(prefix: Prefix, warm: Warm, ttl_s: float | None, pin: bool, session: str | None) -> dict[str, Any]:
    """What is not given is not sent: it then stays as it was."""
    given = {"ttl_s": ttl_s, "pin": pin or None, "session": session}
    return {"namespace": prefix.namespace, "warm": warm} | {key: value for key, value in given.items() if value}


def _handle(prefix: Prefix, answer: Mapping[str, Any]) -> Handle:
    state: PrefixState = answer["state"] if answer.get("state") in get_args(PrefixState) else "unknown"
    return Handle(prefix.id, prefix.num_tokens, answer.get("resident_tokens"), state)


async def _events(answer: Answer, url: str) -> AsyncGenerator[Piece | End, None]:
    rest = b""
    async for piece in answer.pieces():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and not line.endswith(b"[DONE]"):
                yield _event(json.loads(line[5:]), url)


def _event(event: Mapping[str, Any], url: str) -> Piece | End:
    if "error" in event:
        raise of_event(event["error"], url)
    receipt = event.get("receipt")
    if receipt is None:
        return Piece(event.get("token_ids", []), event.get("text", ""))
    # What was read for this very question is not reused, though the engine found it in its cache afterwards.
    reused = receipt.get("resident_tokens" if receipt.get("waited_for") == "read" else "cached_tokens")
    return End(event["finish_reason"], receipt["prompt_tokens"], reused)
