"""Decides who somebody is where nobody logs in: the one person at this machine, whose chats are kept.

Chainlit keeps chats of people who have logged in only, so the browser is logged in by itself. That ends with the first
account: from then on this person's login is nobody's, and their chats wait until nobody logs in again.
"""

from __future__ import annotations

from collections.abc import Callable

import chainlit as cl
from chainlit.auth import create_jwt, get_token_from_cookies, set_auth_cookie
from chainlit.auth.jwt import decode_jwt
from jwt import PyJWTError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.people.rights import OF_THIS_MACHINE

LOCAL = OF_THIS_MACHINE.name
"""With blanks, as no account's name is: nobody's account comes upon these chats."""


async def local_person(headers: object) -> cl.User:
    """For Chainlit's `header_auth_callback`."""
    return cl.User(identifier=LOCAL, display_name="", metadata={})


def without_user_menu(html: str) -> str:
    """The page without the button of somebody who has logged in: there is nobody to log out."""
    return html.replace("</head>", "<style>#user-nav-button { display: none; }</style></head>", 1)


class LocalLogin:
    """ASGI middleware that logs a browser in with the page itself, so that Chainlit never has to refuse it first.

    Args:
        with_login: Whether people log in now; then it does nothing.
    """

    def __init__(self, app: ASGIApp, *, with_login: Callable[[], bool]) -> None:
        self.app = app
        self.with_login = with_login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and scope["method"] == "GET" and _is_page(Request(scope))
        if not is_page or self.with_login():
            await self.app(scope, receive, send)
            return
        login = Response()
        set_auth_cookie(Request(scope), login, create_jwt(await local_person(None)))
        cookies = [header for header in login.raw_headers if header[0] == b"set-cookie"]

        async def with_cookies(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *cookies]
            await send(message)

        await self.app(scope, receive, with_cookies)


def _is_page(request: Request) -> bool:
    """Whether a browser opens the page with this, and has no login yet."""
    if "text/html" not in request.headers.get("accept", ""):
        return False
    try:
        return decode_jwt(get_token_from_cookies(request.cookies) or "").identifier != LOCAL
    except PyJWTError:
        return True
