"""Decides which kept files and ratings a person may reach: those of own chats, and files of chats that are shared.

Chainlit lets whoever has logged in rate any answer and take any rating back; here another's is not found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from chainlit.auth import get_current_user, get_token_from_cookies
from chainlit.types import DeleteFeedbackRequest, UpdateFeedbackRequest
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from app.history.files import ROUTE
from app.history.layer import History
from app.page.door import NOT_LOGGED_IN
from app.problem import Problem

_NOT_FOUND = {"detail": "not found", "code": "not_found"}

MayView = Callable[[str, Any], Awaitable[bool]]
"""Takes a chat's id and who looks at it, who is not its author."""


Who = Callable[[Request], Awaitable[Any]]
"""Gives who asks, None where nobody has to log in."""


async def logged_in(request: Request) -> Any:
    """Who asks, by Chainlit's cookie.

    Raises:
        Problem: `not_logged_in` where a login is wanted and there is none.
    """
    try:
        return await get_current_user(get_token_from_cookies(request.cookies) or "")
    except HTTPException as error:
        raise NOT_LOGGED_IN from error


def routes(history: History, may_view: MayView, prefix: str = "", who: Who = logged_in) -> list[Route]:
    """What has to stand in front of Chainlit's own routes, whose last one answers everything."""

    async def file(request: Request) -> Response:
        thread_id, element_id = request.path_params["thread_id"], request.path_params["element_id"]
        if not await _may_read(history, thread_id, await who(request), may_view):
            return JSONResponse(_NOT_FOUND, 404)
        element = await history.get_element(thread_id, element_id)
        key = element.get("objectKey") if element else None
        path = history.files.path(key) if key else None
        if path is None or not path.is_file():
            return JSONResponse(_NOT_FOUND, 404)
        # Whatever it is, the browser shows it as text or lays it down as a file.
        is_text = (element or {}).get("type") == "text"
        return FileResponse(
            path,
            media_type="text/plain; charset=utf-8" if is_text else "application/octet-stream",
            headers={
                "content-disposition": "inline" if is_text else "attachment",
                "cache-control": "private, no-store",
            },
        )

    async def rate(request: Request) -> Response:
        try:
            wanted = UpdateFeedbackRequest.model_validate_json(await request.body())
        except ValidationError:
            return JSONResponse({"detail": "a rating has forId and value", "code": "bad_request"}, 422)
        person = await who(request)
        if person is None or await history.author_of_step(wanted.feedback.forId) != person.identifier:
            return JSONResponse(_NOT_FOUND, 404)
        return JSONResponse({"success": True, "feedbackId": await history.upsert_feedback(wanted.feedback)})

    async def unrate(request: Request) -> Response:
        try:
            wanted = DeleteFeedbackRequest.model_validate_json(await request.body())
        except ValidationError:
            return JSONResponse({"detail": "a rating has a feedbackId", "code": "bad_request"}, 422)
        person = await who(request)
        if person is None or await history.author_of_feedback(wanted.feedbackId) != person.identifier:
            return JSONResponse(_NOT_FOUND, 404)
        await history.delete_feedback(wanted.feedbackId)
        return JSONResponse({"success": True})

    return [
        Route(f"{prefix}{ROUTE}/{{thread_id}}/{{element_id}}", file, methods=["GET"]),
        Route(f"{prefix}/feedback", rate, methods=["PUT"]),
        Route(f"{prefix}/feedback", unrate, methods=["DELETE"]),
    ]


async def told(request: Request, problem: Exception) -> Response:
    """Answers a request that failed with its sentence, where Chainlit would say "Internal Server Error"."""
    assert isinstance(problem, Problem)
    status = 401 if problem.code == NOT_LOGGED_IN.code else 503
    return JSONResponse({"detail": problem.message, "code": problem.code}, status)


async def _may_read(history: History, thread_id: str, person: Any, may_view: MayView) -> bool:
    if person is None:
        return False
    author = await history.get_thread_author(thread_id)
    return author == person.identifier or (bool(author) and await may_view(thread_id, person))
