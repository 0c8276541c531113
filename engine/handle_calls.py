"""Decides how our routes are called over HTTP: path, body, and what the server's lines and refusals mean."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote

import numpy as np

from engine.base import EngineError, FinishReason, Handle, Prefix, PrefixState, Sampling
from engine.errors import of_answer, of_event, translated_http
from engine.server import RunningEngine

if TYPE_CHECKING:
    import httpx

_CONNECT_TIMEOUT_S = 5.0
# As many streams as one page or one batch opens; each keeps its connection for its next question.
_KEPT_CONNECTIONS = 512
_HERE = ("127.0.0.1", "localhost", "[::1]")

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
        import httpx

        self._url = running.url
        # A long document may be read for minutes before the first byte comes back: no limit on reading. A proxy that
        # the environment names is for other machines.
        self._http = httpx.AsyncClient(
            base_url=running.url,
            headers={"Authorization": f"Bearer {running.token}"} if running.token else None,
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_CONNECTIONS),
            trust_env=httpx.URL(running.url).host not in _HERE,
        )

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
        self,
        prefix: Prefix,
        tail_ids: tuple[int, ...],
        sampling: Sampling,
        text: bool,
        trace_headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[AsyncGenerator[Piece | End, None]]:
        """The events of an answer; leaving the block closes the connection, and so aborts it in the engine.

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
        async with translated_http(self._url):
            stream = self._http.stream(
                "POST", f"/v1/prefixes/{prefix.id}/generate", json=body, headers=trace_headers or None
            )
            async with stream as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise self._refusal(answer)
                yield _events(answer, self._url)

    async def close(self) -> None:
        await self._http.aclose()

    async def _call(self, method: str, route: str, body: dict[str, Any]) -> dict[str, Any]:
        async with translated_http(self._url):
            answer = await self._http.request(method, route, json=body)
            if answer.status_code >= 400:
                raise self._refusal(answer)
            read: dict[str, Any] = answer.json() if answer.content else {}
        return read

    def _refusal(self, answer: httpx.Response) -> EngineError:
        if answer.status_code == 404:
            return UnknownPrefixError(self._url)
        return of_answer(answer.status_code, answer.text, self._url)


def _life(prefix: Prefix, warm: Warm, ttl_s: float | None, pin: bool, session: str | None) -> dict[str, Any]:
    """What is not given is not sent: it then stays as it was."""
    given = {"ttl_s": ttl_s, "pin": pin or None, "session": session}
    return {"namespace": prefix.namespace, "warm": warm} | {key: value for key, value in given.items() if value}


def _handle(prefix: Prefix, answer: Mapping[str, Any]) -> Handle:
    state: PrefixState = answer["state"] if answer.get("state") in get_args(PrefixState) else "unknown"
    return Handle(prefix.id, prefix.num_tokens, answer.get("resident_tokens"), state)


async def _events(answer: httpx.Response, url: str) -> AsyncGenerator[Piece | End, None]:
    rest = b""
    async for chunk in answer.aiter_raw():
        *lines, rest = (rest + chunk).split(b"\n")
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
