"""Decides what opens at a chat's address: the chat to its author, its shared page to who may see that, else a refusal.

Chainlit opens its page at any address, and of a chat that is not one's own it says that the server can't be reached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from app.history.layer import History
from app.page.kept import MayView, Who, logged_in
from app.problem import Problem

Page = Callable[[Request], Awaitable[Response]]


def chat_page(
    history: History, may_view: MayView, page: Page, refused: Page, prefix: str = "", who: Who = logged_in
) -> Route:
    """The route of a chat's address.

    Args:
        page: Chainlit's own page, which then asks for the chat.
        refused: What somebody sees who has no such chat; the same whether anybody has.
    """

    async def open_chat(request: Request) -> Response:
        thread_id = request.path_params["thread_id"]
        try:
            person = await who(request)
            await history.database.settled()
            author = await history.get_thread_author(thread_id)
            if person is None or author == person.identifier:
                return await page(request)
            if author and await may_view(thread_id, person):
                return RedirectResponse(f"{prefix}/share/{thread_id}", 303)
        except Problem:  # Nobody is logged in, or the chats can't be read: the page itself tells that.
            return await page(request)
        return await refused(request)

    return Route(f"{prefix}/thread/{{thread_id}}", open_chat, methods=["GET"])
