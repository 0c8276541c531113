"""Decides who a request comes from where a proxy stands before the page: the proxy is believed, and remembered.

What a proxy says of its client counts for login limits, its scheme for cookies and links. Whether a header that names a
person is believed goes by who really called.
"""

from __future__ import annotations

from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send

_PEER = "readonce.peer"


def behind_proxies(app: ASGIApp, proxies: str) -> ASGIApp:
    """`app`, told the clients that proxies at these addresses name; `caller` still tells the proxy's own.

    Args:
        proxies: Addresses, separated by commas.
    """
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    # Starlette and uvicorn have the same calls under types of their own.
    believing = cast(ASGIApp, ProxyHeadersMiddleware(cast(Any, app), addresses(proxies)))

    async def remembering(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            scope = {**scope, _PEER: client(scope)}
        await believing(scope, receive, send)

    return remembering


def addresses(proxies: str) -> list[str]:
    """Of a setting that separates them by commas."""
    return [each.strip() for each in proxies.split(",")]


def client(scope: Scope) -> str:
    """The address of whoever asks, as the proxy in front names it; empty where it has none."""
    return str(scope["client"][0]) if scope.get("client") else ""


def caller(scope: Scope) -> str:
    """The address that the connection comes from: the proxy's where there is one."""
    return str(scope.get(_PEER) or client(scope))
