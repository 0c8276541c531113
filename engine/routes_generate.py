"""Decides how an answer goes over the wire: server-sent events, the first token at once, then in gathered pieces.

The event loop that writes them is vLLM's own. One stream gets every token as it comes. The more streams there are, the
longer each waits before it takes its next tokens, all that came meanwhile together: what the loop does a second stays
about the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from engine.base import EngineError
from engine.questions import End, Piece, Question, Questions
from engine.routes_wire import Asked, GoneError, body_of, error_body, plain, problem, read

_GATHERED_S = 0.04  # between two pieces of one of ...
_GATHERED_STREAMS = 128  # ... so many streams
_LONGEST_S = 0.2
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a proxy before us must not gather once more
]
_TRACE_HEADERS = (b"traceparent", b"tracestate")
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class PieceEvent(msgspec.Struct, omit_defaults=True):
    """Some of an answer; without `text` where it decided no words."""

    token_ids: tuple[int, ...]
    text: str = ""


class Generate:
    """The route as an ASGI app of its own: nothing stands between its events and the server's socket.

    Args:
        questions: Called for each request; raises EngineError `no_engine` where the server has no engine.
    """

    def __init__(self, questions: Callable[[], Questions]) -> None:
        self._questions = questions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            questions = self._questions()
            body = await body_of(scope, receive)
            asked = read(body, Asked)
            handle = str(scope["path_params"]["id"])
            question = Question(
                handle, asked.namespace, asked.token_ids, asked.sampling(), asked.text, _trace_headers(scope)
            )
        except EngineError as error:
            await problem(error)(scope, receive, send)
            return
        except GoneError:
            return
        answering = asyncio.ensure_future(_answer(questions, question, scope, receive, send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not answering.done():
                answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering


def route(questions: Callable[[], Questions]) -> Route:
    return Route("/v1/prefixes/{id}/generate", Generate(questions), methods=["POST"])


def gather_s(num_live: int) -> float:
    """How long one of so many streams waits between two of its pieces."""
    return min(_GATHERED_S * max(0, num_live - 1) / (_GATHERED_STREAMS - 1), _LONGEST_S)


async def _answer(questions: Questions, question: Question, scope: Scope, receive: Receive, send: Send) -> None:
    events = Events(send)
    try:
        async with contextlib.aclosing(questions.ask(question)) as answer:
            async for event in answer:
                began = time.perf_counter()
                await events.send(event)
                # What the engine gives while we wait comes in one piece: nothing here runs for each token.
                wait_s = gather_s(questions.num_live) - (time.perf_counter() - began)
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
        await events.end()
    except EngineError as error:
        if not events.has_begun:
            await problem(error)(scope, receive, send)
            return
        await events.fail(error)
    except Exception as error:
        _log.exception("A question failed.")
        failed = EngineError("engine_failed", f"The server failed ({type(error).__name__}); look into its log.")
        if not events.has_begun:
            await problem(failed)(scope, receive, send)
            return
        await events.fail(failed)


class Events:
    """The events of one answer. Status and headers go out with the first of them."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def send(self, event: Piece | End) -> None:
        if isinstance(event, End):
            await self._write({"finish_reason": event.reason, "receipt": plain(event.receipt)})
        else:
            await self._write(PieceEvent(event.token_ids, event.text))

    async def fail(self, error: EngineError) -> None:
        await self._write(error_body(error))
        await self.end()

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, event: Any) -> None:
        if not self.has_begun:
            self.has_begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self._send(
            {"type": "http.response.body", "body": b"data: " + _encode(event) + b"\n\n", "more_body": True}
        )


def _trace_headers(scope: Scope) -> dict[str, str]:
    return {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _TRACE_HEADERS}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
