"""Decides which requests still come from somebody who is logged in, and how often a login may fail from one address.

It stands before Chainlit: a cookie whose session was ended is taken away, so that Chainlit finds nobody, and so is a
proxy's header that did not come from a proxy.
"""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from app.page_login import Login
    from app.people import People

_COOKIE = "access_token"
_OPEN = ("/assets/", "/public/", "/v1/", "/readonce/welcome", "/readonce/state")
_LOGINS = ("/login", "/auth/header", "/auth/jwt")


class PageDoor:
    """ASGI middleware. Without login it lets everything through, and only looks whether that is still so."""

    def __init__(self, app: ASGIApp, *, login: Login, people: People, header: str, proxies: str) -> None:
        self.app = app
        self.login = login
        self.people = people
        self.header = header.lower().encode("latin-1")
        self.proxies = frozenset(each.strip() for each in proxies.split(","))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] not in ("http", "websocket") or path.startswith(_OPEN):
            await self.app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else ""
        if self.header and address not in self.proxies:
            scope = _without(scope, self.header)
        if not await run_in_threadpool(self.login.look):
            await self.app(scope, receive, send)
            return
        token = token_of(scope)
        known = token is not None and await run_in_threadpool(self.login.person_of, token) is not None
        # Chainlit would take a cookie's words from this header too.
        scope = _without(scope, b"authorization") if known else _without(scope, b"authorization", b"cookie")
        if path == "/readonce/picked" and not known:
            await JSONResponse({}, 401)(scope, receive, send)
        elif path in _LOGINS and scope.get("method") == "POST":
            await self._log_in(scope, receive, send, address)
        else:
            await self.app(scope, receive, _safe_cookies(scope, send))

    async def _log_in(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        if not await run_in_threadpool(self.people.address_may_try, address):
            await JSONResponse({"detail": "Too many logins failed; try again in half an hour."}, 429)(
                scope, receive, send
            )
            return
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self.app(scope, receive, _safe_cookies(scope, noted))
        if status == 401:
            await run_in_threadpool(self.people.address_failed, address)


def token_of(scope: Scope) -> str | None:
    """The session's cookie, which Chainlit cuts in pieces where it is long."""
    cookies: SimpleCookie = SimpleCookie()
    for name, value in scope["headers"]:
        if name == b"cookie":
            cookies.load(value.decode("latin-1"))
    if _COOKIE in cookies:
        return cookies[_COOKIE].value
    pieces: list[str] = []
    while f"{_COOKIE}_{len(pieces)}" in cookies:
        pieces.append(cookies[f"{_COOKIE}_{len(pieces)}"].value)
    return "".join(pieces) or None


def _without(scope: Scope, *names: bytes) -> Scope:
    """`scope` without these headers; of cookies only the session's go, a login under way keeps its own."""
    headers = []
    for name, value in scope["headers"]:
        if name == b"cookie" and name in names:
            kept = [part for part in value.split(b";") if not part.strip().startswith(_COOKIE.encode())]
            headers += [(name, b";".join(kept))] if kept else []
        elif name not in names:
            headers.append((name, value))
    return {**scope, "headers": headers}


def _safe_cookies(scope: Scope, send: Send) -> Send:
    """Over HTTPS, a proxy's too, cookies travel over HTTPS only."""
    headers = dict(scope["headers"])
    if scope.get("scheme") not in ("https", "wss") and headers.get(b"x-forwarded-proto", b"") != b"https":
        return send

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                (name, value + b"; Secure") if name.lower() == b"set-cookie" and b"secure" not in value.lower() else
                (name, value) for name, value in message.get("headers", [])
            ]  # fmt: skip
        await send(message)

    return wrapped
