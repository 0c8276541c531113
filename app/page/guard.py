"""Decides what the page lets through, around Chainlit's server: from whom, how large a body, with which headers back.

Chainlit reads an upload to its end before it looks at its size, answers an empty file with an error page, serves it as
what its sender called it, and lets any site open a socket.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.forms import problem_body
from app.page.origin import from_elsewhere, is_called
from app.page.policy import Policy, with_headers
from app.problem import Problem

UPLOAD = "/project/file"
_API = "/v1/"
_OWN = "/public/"
_SLACK_BYTES = 64 * 1024
# What is no file: a login, an action, a question with all that was said before it.
_FORM_BYTES = 4 * 1024 * 1024
_PICKED_BYTES = 1024

StateOf = Callable[[str], dict[str, str]]
"""Takes an Accept-Language header, gives what /readonce/state answers."""

Picked = Callable[[str], None]
"""Takes the name that somebody has picked to ask about; returns at once."""


class TooLargeError(Exception):
    """A body that goes on past the limit."""


class PageGuard:
    """ASGI middleware; the innermost thing that is ours between the network and Chainlit.

    Args:
        names: The names that the page may be asked by; None: any, as where everybody logs in.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        state_of: StateOf,
        picked: Picked,
        most_mib: int,
        policy: Policy,
        names: Callable[[], frozenset[str] | None],
    ) -> None:
        self.app = app
        self.state_of = state_of
        self.picked = picked
        self.policy = policy
        self.names = names
        self.most_mib = most_mib

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if scope["type"] == "http":
            brought, own = path.startswith(f"{UPLOAD}/"), path.startswith(_OWN)
            send = with_headers(send, self.policy, brought=brought, own=own)
        names = self.names()
        if names is not None and not is_called(headers.get("host", ""), names):
            sentence = "This page has another address: use http://localhost, or set READONCE_URL to what it is called."
            await _refuse(scope, send, 421, Problem("wrong_host", sentence))
        elif from_elsewhere(scope.get("method", "GET"), headers):
            await _refuse(scope, send, 403, Problem("other_origin", "This page answers its own origin only."))
        elif scope["type"] == "websocket":
            await self.app(scope, receive, send)
        elif path == "/readonce/state":
            await _answer(send, 200, self.state_of(headers.get("accept-language", "")))
        elif path == "/readonce/picked" and scope["method"] == "POST":
            message = await receive()
            self.picked(message.get("body", b"")[:_PICKED_BYTES].decode("utf-8", "replace"))
            await _answer(send, 200, {})
        else:
            await self._limited(scope, receive, send, headers)

    async def _limited(self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        """Lets a body through up to its limit; of an upload, answers what Chainlit would let become an error page."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        is_file = headers.get("content-type", "").startswith("multipart/") and not path.startswith(_API)
        most = self.most_mib * 1024 * 1024 + _SLACK_BYTES if is_file or path == UPLOAD else _FORM_BYTES
        what = f"it is larger than {self.most_mib} MB; split it." if most != _FORM_BYTES else "it is too large."
        refusal = Problem("too_large", what)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            await _refuse(scope, send, 413, refusal)
            return
        taken, started, over = 0, False, False

        async def counted() -> Message:
            nonlocal taken, over
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                over = True
                raise TooLargeError
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            if over and not started:
                return  # what the app makes of a body that was cut off; the refusal is ours
            started = True
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except TooLargeError:
            pass
        except Exception:
            if started or path != UPLOAD:
                raise
            await _answer(send, 400, {"detail": "there is nothing in it, or it can't be received."})
            return
        if over and not started:
            await _refuse(scope, send, 413, refusal)


async def _answer(send: Send, status: int, values: dict[str, Any]) -> None:
    body = json.dumps(values, ensure_ascii=False).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _refuse(scope: Scope, send: Send, status: int, problem: Problem) -> None:
    """As a page wants it, and in OpenAI's form too, for programs."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
    else:
        await _answer(send, status, {"detail": problem.message, **problem_body(problem)[1]})
