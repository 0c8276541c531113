"""Decides which requests still come from somebody who is logged in, and how often a login may fail from one address.

It stands before Chainlit: a cookie whose session was ended is taken away, so that Chainlit finds nobody, and so is a
proxy's header that did not come from a proxy. Who is not logged in changes nothing, and uploads nothing.
"""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.page.origin import SESSION_COOKIE, changes
from app.page.policy import Policy, with_headers
from app.page.proxies import addresses, caller, client
from app.page.sockets import Sockets
from app.problem import Problem

if TYPE_CHECKING:
    from app.page.login import Login
    from app.people.accounts import People
from app.people.attempts import Addresses

_COOKIE = SESSION_COOKIE
_OPEN = ("/assets/", "/public/", "/v1/", "/readonce/welcome", "/readonce/state")
_LOGINS = ("/login", "/auth/header", "/auth/jwt")
# What somebody may send before they are known; Chainlit's socket looks at its cookie itself.
_BEFORE = ("/login", "/logout", "/auth/", "/ws/")

# Of these Chainlit's page reads the refusals.
_ITS_OWN = ("/user", "/login", "/logout", "/auth/header", "/auth/jwt", "/set-session-cookie")
NOT_LOGGED_IN = Problem("not_logged_in", "You are not logged in: load the page again and log in.")
_TOO_MANY = Problem("too_many_logins", "Too many logins failed; try again in half an hour.")


class PageDoor:
    """ASGI middleware. Without login it lets everything through, and only looks whether that is still so."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        login: Login,
        people: People,
        tried: Addresses,
        header: str,
        proxies: str,
        policy: Policy,
    ) -> None:
        self.app = app
        self.policy = policy
        self.sockets = Sockets(people.sessions)
        self.login = login
        self.tried = tried
        self.header = header.lower().encode("latin-1")
        self.proxies = frozenset(addresses(proxies))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] not in ("http", "websocket") or path.startswith(_OPEN):
            await self.app(scope, receive, send)
            return
        if self.header and caller(scope) not in self.proxies:
            scope = _without(scope, self.header)
        if not await run_in_threadpool(self.login.look):
            await self.app(scope, receive, send)
            return
        token = token_of(scope)
        person = await run_in_threadpool(self.login.person_of, token) if token is not None else None
        known = person is not None
        # Chainlit would take a cookie's words from this header too.
        scope = _without(scope, b"authorization") if known else _without(scope, b"authorization", b"cookie")
        if scope["type"] == "websocket" and person is not None:
            await self.sockets.serve(self.app, scope, receive, send, (person.name, person.session))
        elif not known and (
            _goes_on(scope, path) or (changes(scope.get("method", "GET")) and not path.startswith(_BEFORE))
        ):
            await self._say(401, NOT_LOGGED_IN, scope, receive, send)
        elif path in _LOGINS and scope.get("method") == "POST":
            await self._log_in(scope, receive, send, client(scope))
        elif known or path in _ITS_OWN:
            await self.app(scope, receive, _safe_cookies(scope, send))
        else:
            await self._for_a_stranger(scope, receive, send)

    async def _for_a_stranger(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Chainlit's refusals say that a token is invalid, which nobody has; ours say what to do, with a code."""
        refused = False

        async def told(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] == 401:
                refused = True
                await self._say(401, NOT_LOGGED_IN, scope, receive, send)
            elif not refused:
                await send(message)

        await self.app(scope, receive, _safe_cookies(scope, told))

    async def _log_in(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        if not await run_in_threadpool(self.tried.may_try, address):
            await self._say(429, _TOO_MANY, scope, receive, send)
            return
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self.app(scope, receive, _safe_cookies(scope, noted))
        if status == 401:
            await run_in_threadpool(self.tried.failed, address)

    async def _say(self, status: int, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        body = {"detail": problem.message, "code": problem.code}
        await JSONResponse(body, status)(scope, receive, with_headers(send, self.policy))


def _goes_on(scope: Scope, path: str) -> bool:
    """Whether it goes on with an open socket by single requests, as a browser does until it is given a real one."""
    return path.startswith("/ws/") and scope["type"] == "http" and b"sid=" in scope.get("query_string", b"")


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
    """No cookie goes along from another site; over HTTPS, as a believed proxy tells it, they travel over HTTPS only."""
    secure = scope.get("scheme") in ("https", "wss")

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                (name, _safe(value, secure) if name.lower() == b"set-cookie" else value)
                for name, value in message.get("headers", [])
            ]
        await send(message)

    return wrapped


def _safe(cookie: bytes, secure: bool) -> bytes:
    parts = [part.strip() for part in cookie.split(b";")]
    kept = [part for part in parts if part.lower() not in (b"secure", b"samesite=none")]
    if not any(part.lower().startswith(b"samesite=") for part in kept):
        kept.append(b"SameSite=lax")
    return b"; ".join([*kept, b"Secure"] if secure else kept)
