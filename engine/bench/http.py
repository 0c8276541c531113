"""Decides how a benchmark's requests travel: a kept connection for each stream, as little work for an event as can be.

httpx looks at every idle connection of a client for each request: of 128 questions at once on one client with 128 of
them, the last one left two seconds late. So a client here has one connection, and each stream a client.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

from engine.base import EngineError

if TYPE_CHECKING:
    import httpx

_CONNECT_TIMEOUT_S = 30.0
_IN_USE = re.compile(r"^vllm:(?:kv_cache_usage_perc|gpu_cache_usage_perc)(?:\{.*\})? (\S+)$", re.MULTILINE)


class Connections:
    """As many connections to one server as there are streams at once.

    Args:
        url: Without `/v1`.
        token: The server's API key; None where it wants none.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url
        self._headers = {"content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        # Made once: it reads the machine's certificates.
        self._ssl: ssl.SSLContext | bool = ssl.create_default_context() if url.startswith("https:") else False
        self._idle: list[httpx.AsyncClient] = []

    async def stream(self, route: str, body: bytes) -> AsyncGenerator[dict[str, Any], None]:
        """The JSON of each server-sent event. Closing it closes the connection: the server ends the answer.

        Raises:
            EngineError: `route_missing`, `engine_failed`, `engine_unreachable`.
        """
        async with self._taken() as client, client.stream("POST", route, content=body) as reply:
            if reply.status_code != 200:
                raise self._refused(route, reply.status_code, await reply.aread())
            rest = b""
            async for piece in reply.aiter_bytes():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: {"):
                        event = json.loads(line[6:])
                        if "error" in event:
                            raise self._refused(route, 200, line[6:])
                        yield event

    async def pool_used(self) -> float | None:
        """By the server's own gauge: what running requests hold, 0 to 1; None where it does not tell."""
        try:
            async with self._taken() as client:
                found = _IN_USE.findall((await client.get("/metrics")).text)
        except EngineError:
            return None
        return round(max(map(float, found)), 4) if found else None

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    @contextlib.asynccontextmanager
    async def _taken(self) -> AsyncIterator[httpx.AsyncClient]:
        import httpx

        client = self._idle.pop() if self._idle else self._opened()
        try:
            yield client
        except httpx.HTTPError as error:
            await client.aclose()
            raise EngineError(
                "engine_unreachable",
                f"The server at {self._url} broke off ({type(error).__name__}: {error}); look into its log.",
            ) from error
        except BaseException:
            await client.aclose()
            raise
        self._idle.append(client)

    def _opened(self) -> httpx.AsyncClient:
        import httpx

        return httpx.AsyncClient(
            base_url=self._url,
            headers=self._headers,
            # A document may be read for minutes, and a connection may wait for the next scenario.
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None),
            verify=self._ssl,
            trust_env=False,  # a proxy between the two would be measured with them
        )

    def _refused(self, route: str, status: int, said: bytes) -> EngineError:
        words = " ".join(said.decode("utf-8", "replace").split())[:300]
        if status == 404:
            return EngineError(
                "route_missing",
                f"The server at {self._url} has no {route} or does not know the model ({words}); leave it out.",
            )
        return EngineError("engine_failed", f"The server at {self._url} refused {route} (HTTP {status}): {words}.")
