"""The address of a chat opens it to its author, its shared page to who may see that, and to nobody else anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chainlit.user import User
from chats import Kept, chatting, person, step
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app.browse.visit import no_such_chat
from app.history.layer import History
from app.page.chat_page import chat_page
from app.page.door import NOT_LOGGED_IN


async def who(request: Request) -> Any:
    """By a header; an empty name is nobody, none is not logged in."""
    name = request.headers.get("x-name")
    if name is None:
        raise NOT_LOGGED_IN
    return User(identifier=name) if name else None


async def page(request: Request) -> Response:
    return PlainTextResponse("Chainlit's page")


async def seen_by_ben(thread_id: str, viewer: Any) -> bool:
    return viewer.identifier == "ben"


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, str, History]]:
    """A client of the route, and the id of a chat of Ada's."""
    kept = Kept("sqlite", tmp_path)
    history = kept.open()
    async with chatting(await person(history, "ada")) as thread_id:
        await history.create_step(step(thread_id))  # type: ignore[arg-type]
        app = Starlette(routes=[chat_page(history, seen_by_ben, page, no_such_chat, who=who)])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client, thread_id, history
    await kept.close()


async def test_who_opens_a_chats_address_gets_it_or_its_shared_page_or_one_sentence(
    opened: tuple[httpx.AsyncClient, str, History],
) -> None:
    """The sentence is the same for a chat of somebody else's and for one that never was."""
    client, thread_id, _ = opened
    address = f"/thread/{thread_id}"
    assert (await client.get(address, headers={"x-name": "ada"})).text == "Chainlit's page"
    shared = await client.get(address, headers={"x-name": "ben"})
    assert (shared.status_code, shared.headers["location"]) == (303, f"/share/{thread_id}")
    others = await client.get(address, headers={"x-name": "cleo"})
    never = await client.get("/thread/never", headers={"x-name": "cleo"})
    assert (others.status_code, never.status_code, others.text) == (404, 404, never.text)
    assert "There is no such chat of yours" in others.text
    assert 'href="/"' in others.text
    chinese = await client.get(address, headers={"x-name": "cleo", "accept-language": "zh-CN"})
    assert "您没有此对话" in chinese.text


@pytest.mark.parametrize("headers", [{}, {"x-name": ""}])
async def test_who_is_not_logged_in_gets_the_page_that_asks_for_it(
    opened: tuple[httpx.AsyncClient, str, History], headers: dict[str, str]
) -> None:
    """Whether there is such a chat is not told."""
    client, thread_id, _ = opened
    for name in (thread_id, "never"):
        assert (await client.get(f"/thread/{name}", headers=headers)).text == "Chainlit's page"


async def test_chats_that_cannot_be_read_open_the_page_that_says_so(
    opened: tuple[httpx.AsyncClient, str, History],
) -> None:
    client, thread_id, history = opened
    await history.close()
    history.database.file.unlink()
    history.database.file.mkdir()
    answer = await client.get(f"/thread/{thread_id}", headers={"x-name": "cleo"})
    assert (answer.status_code, answer.text) == (200, "Chainlit's page")
