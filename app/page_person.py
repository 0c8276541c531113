"""Decides who somebody is where nobody logs in: on this machine alone, the one local person, whose chats are kept.

Chainlit keeps chats of people who have logged in only, so the browser is logged in by itself. A page that listens to
other machines too has no local person: everybody would read everybody's chats.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import tempfile
from pathlib import Path

import chainlit as cl
from chainlit.auth import create_jwt, get_token_from_cookies, set_auth_cookie
from chainlit.auth.jwt import decode_jwt
from chainlit.config import config
from jwt import PyJWTError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = "local"
SECRET = "page_secret"
SECRET_VARIABLE = "CHAINLIT_AUTH_SECRET"


def somebody_logs_in() -> bool:
    """Whether the page has a way to log in of its own."""
    code = config.code
    return any((code.password_auth_callback, code.header_auth_callback, code.oauth_callback))


def is_this_machine(host: str) -> bool:
    """Whether a page that listens on `host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def local_person(headers: object) -> cl.User:
    """For Chainlit's `header_auth_callback`."""
    return cl.User(identifier=LOCAL, display_name="", metadata={})


def sign_logins(home: Path) -> None:
    """Gives Chainlit the secret that it signs logins with, the same at each start, unless it was given one.

    Raises:
        OSError: The home can't be written.
    """
    if not os.environ.get(SECRET_VARIABLE):
        os.environ[SECRET_VARIABLE] = _secret(home / SECRET)


def _secret(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="ascii") as draft:  # its owner's alone
        draft.write(secrets.token_urlsafe(48))
        draft.flush()
        with contextlib.suppress(FileExistsError):  # Of two that start at once the second takes the first one's.
            os.link(draft.name, path)
    return path.read_text(encoding="ascii")


def without_user_menu(html: str) -> str:
    """The page without the button of somebody who has logged in: there is nobody to log out."""
    return html.replace("</head>", "<style>#user-nav-button { display: none; }</style></head>", 1)


class LocalLogin:
    """ASGI middleware that logs a browser in with the page itself, so that Chainlit never has to refuse it first."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not _is_page(Request(scope)):
            await self.app(scope, receive, send)
            return
        login = Response()
        set_auth_cookie(Request(scope), login, create_jwt(await local_person(None)))
        cookies = [header for header in login.raw_headers if header[0] == b"set-cookie"]

        async def with_login(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *cookies]
            await send(message)

        await self.app(scope, receive, with_login)


def _is_page(request: Request) -> bool:
    """Whether a browser opens the page with this, and has no login yet."""
    if "text/html" not in request.headers.get("accept", ""):
        return False
    try:
        return decode_jwt(get_token_from_cookies(request.cookies) or "").identifier != LOCAL
    except PyJWTError:
        return True
