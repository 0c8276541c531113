"""Decides that an engine of ours answers nobody without its token: vLLM itself guards some of its routes only.

What is left open says no word of anybody's text: whether the engine is there, its version, its counters.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

OPEN = frozenset({"/health", "/ping", "/version", "/load", "/metrics"})


class Guard:
    """ASGI middleware around vLLM's whole app.

    Args:
        token: What an `Authorization: Bearer` header has to hold.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._may_pass(scope):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        body = b'{"error":{"code":"token_refused","message":"This engine wants its token; see engine.json."}}'
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _may_pass(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and path.rstrip("/") in OPEN:
            return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and secrets.compare_digest(given[0], self._expected)
