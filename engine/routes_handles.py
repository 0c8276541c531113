"""Decides the routes about handles: register, look, change, free, end a session, and the whole cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from engine.handles import Handles
from engine.prefixes import Change
from engine.routes_wire import Namespace, Patch, Registration, answering, body_of, plain, read


def routes(handles: Callable[[], Handles]) -> list[Route]:
    """Args: `handles`, called for each request; raises EngineError `no_engine` where the server has no engine."""

    async def register(request: Request) -> Any:
        called, body = handles(), read(await body_of(request.scope, request.receive), Registration)
        return plain(
            await called.register(body.ids(), body.namespace, body.name, body.ttl_s, body.pin, body.session, body.warm)
        )

    async def look(request: Request) -> Any:
        return plain(handles().look(_handle(request), request.query_params.get("namespace", "")))

    async def look_all(request: Request) -> Any:
        return {"prefixes": [plain(one) for one in handles().look_all(request.query_params.get("namespace"))]}

    async def change(request: Request) -> Any:
        called, body = handles(), read(await body_of(request.scope, request.receive), Patch)
        asked = Change(
            sets_ttl=body.ttl_s is not msgspec.UNSET,
            ttl_s=None if isinstance(body.ttl_s, msgspec.UnsetType) else body.ttl_s,
            pin=body.pin,
            session=body.session,
        )
        return plain(await called.change(_handle(request), body.namespace, asked, body.warm))

    async def free(request: Request) -> Any:
        called, body = handles(), await body_of(request.scope, request.receive)
        namespace = read(body, Namespace).namespace if body else request.query_params.get("namespace", "")
        return {"id": _handle(request), "dropped_blocks": await called.free(_handle(request), namespace)}

    async def end_session(request: Request) -> Any:
        session = str(request.path_params["name"])
        return {"session": session, "freed": handles().end_session(session)}

    async def cache(request: Request) -> Any:
        return handles().view().to_json()

    return [
        Route("/v1/prefixes", answering(register), methods=["POST"]),
        Route("/v1/prefixes", answering(look_all), methods=["GET"]),
        Route("/v1/prefixes/{id}", answering(look), methods=["GET"]),
        Route("/v1/prefixes/{id}", answering(change), methods=["PATCH"]),
        Route("/v1/prefixes/{id}", answering(free), methods=["DELETE"]),
        Route("/v1/sessions/{name:path}", answering(end_session), methods=["DELETE"]),
        Route("/v1/cache", answering(cache), methods=["GET"]),
    ]


def _handle(request: Request) -> str:
    return str(request.path_params["id"])
