"""Decides what the page lets through, around Chainlit's server: which origins, how large a body, what a page may load.

Chainlit reads an upload to its end before it looks at its size, answers an empty file with an error page, lets any site
open a socket, and loads two style sheets from elsewhere (behind a firewall the page then waits for them).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The page's JSX elements are compiled in the browser, which needs 'unsafe-eval'; nothing is loaded from elsewhere.
POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "worker-src 'self' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "font-src 'self' data:",
        "connect-src 'self' ws: wss:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    ]
)
_SLACK_BYTES = 64 * 1024
_PICKED_BYTES = 1024
_FOREIGN_LINK = re.compile(r"""<link\b[^>]*\bhref="https?://[^>]*>\s*""")

StateOf = Callable[[str], dict[str, str]]
"""Takes an Accept-Language header, gives what /readonce/state answers."""

Picked = Callable[[str], None]
"""Takes the name that somebody has picked to ask about; returns at once."""


def without_foreign_links(html: str) -> str:
    """The page without the style sheets of other hosts; no policy keeps a browser from connecting ahead to those."""
    return _FOREIGN_LINK.sub("", html)


class TooLargeError(Exception):
    """A body that goes on past the limit."""


class PageGuard:
    """ASGI middleware; the innermost thing that is ours between the network and Chainlit."""

    def __init__(self, app: ASGIApp, *, state_of: StateOf, picked: Picked, most_mib: int) -> None:
        self.app = app
        self.state_of = state_of
        self.picked = picked
        self.most_bytes = most_mib * 1024 * 1024 + _SLACK_BYTES
        self.too_large = f"it is larger than {most_mib} MB; split it."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if _from_elsewhere(headers):
            await _refuse(scope, send)
            return
        if scope["type"] == "websocket":
            await self.app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path == "/readonce/state":
            await _answer(send, 200, self.state_of(headers.get("accept-language", "")))
        elif path == "/readonce/picked" and scope["method"] == "POST":
            message = await receive()
            self.picked(message.get("body", b"")[:_PICKED_BYTES].decode("utf-8", "replace"))
            await _answer(send, 200, {})
        elif path == "/project/file" and scope["method"] == "POST":
            await self._upload(scope, receive, send, headers)
        else:
            await self.app(scope, receive, _with_headers(send))

    async def _upload(self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        """Lets an upload through up to the limit, and answers what Chainlit would let become an error page."""
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self.most_bytes:
            await _answer(send, 413, {"detail": self.too_large})
            return
        taken, started = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.most_bytes:
                raise TooLargeError
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await _with_headers(send)(message)

        try:
            await self.app(scope, counted, noted)
        except TooLargeError:
            if not started:
                await _answer(send, 413, {"detail": self.too_large})
        except Exception:
            if started:
                raise
            await _answer(send, 400, {"detail": "there is nothing in it, or it can't be received."})


def _from_elsewhere(headers: dict[str, str]) -> bool:
    """True where another site's page sends this; a proxy in front tells the outer host by X-Forwarded-Host."""
    origin = headers.get("origin")
    if origin is None:
        return False
    own = {headers.get("host", ""), *(name.strip() for name in headers.get("x-forwarded-host", "").split(","))}
    return urlsplit(origin).netloc not in own - {""}


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message.get("headers", []),
                (b"content-security-policy", POLICY.encode()),
                (b"x-content-type-options", b"nosniff"),
                # Without any a browser would not tell of our own forms where they come from.
                (b"referrer-policy", b"same-origin"),
            ]
        await send(message)

    return wrapped


async def _answer(send: Send, status: int, values: dict[str, Any]) -> None:
    body = json.dumps(values, ensure_ascii=False).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
    else:
        await _answer(send, 403, {"detail": "This page answers its own origin only."})
