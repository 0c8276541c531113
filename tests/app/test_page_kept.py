"""Who reaches what of kept chats over HTTP: the author all, others what is shared, and nobody another's ratings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chainlit as cl
import httpx
import pytest
from chats import Kept, chatting, person, step
from starlette.applications import Starlette
from starlette.requests import Request

from app.page.kept import routes, told
from app.problem import Problem


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    made = Kept("sqlite", tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def client(kept: Kept) -> AsyncIterator[httpx.AsyncClient]:
    """The `who` header says who asks."""

    async def who(request: Request) -> Any:
        name = request.headers.get("who")
        return SimpleNamespace(identifier=name) if name else None

    async def may_view(thread_id: str, viewer: Any) -> bool:
        return viewer.identifier != "eve" and await kept.first.is_shared(thread_id)

    app = Starlette(routes=routes(kept.first, may_view, who=who), exception_handlers={Problem: told})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client:
        yield client


async def chat_of_ada(kept: Kept) -> tuple[str, str, str]:
    """A chat's id, its step's, and the address of its file."""
    history = kept.first
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        asked = step(thread_id)
        await history.create_step(asked)
        quote = cl.Text(name="q", content="<script>alert(1)</script>", for_id=asked["id"])
        await history.create_element(quote)
    return thread_id, asked["id"], await history.files.get_read_url(f"{thread_id}/{quote.id}")


async def test_a_file_is_for_its_author_and_where_shared_for_those_who_may_view(
    kept: Kept, client: httpx.AsyncClient
) -> None:
    """As plain text, never as a page; for others it does not exist."""
    thread_id, _, address = await chat_of_ada(kept)
    mine = await client.get(address, headers={"who": "ada"})
    assert (mine.status_code, mine.text) == (200, "<script>alert(1)</script>")
    assert mine.headers["content-type"] == "text/plain; charset=utf-8"
    assert mine.headers["cache-control"] == "private, no-store"

    async def seen(name: str) -> int:
        return (await client.get(address, headers={"who": name})).status_code

    assert [await seen(name) for name in ("bob", "eve", "")] == [404, 404, 404]
    await kept.first.update_thread(thread_id, metadata={"is_shared": True})
    assert [await seen(name) for name in ("bob", "eve", "")] == [200, 404, 404]
    await kept.first.update_thread(thread_id, metadata={"is_shared": False})
    assert [await seen(name) for name in ("ada", "bob")] == [200, 404]
    await kept.first.delete_thread(thread_id)
    assert await seen("ada") == 404


@pytest.mark.parametrize("key", ["../chats.sqlite3", "%2e%2e/chats.sqlite3", "a/b%2f..%2f..%2fchats.sqlite3", "x/"])
async def test_no_address_leads_out_of_the_folder(kept: Kept, client: httpx.AsyncClient, key: str) -> None:
    await chat_of_ada(kept)
    assert (await client.get(f"/readonce/kept/{key}", headers={"who": "ada"})).status_code == 404


@pytest.mark.parametrize("key", ["../up", "a/../b", "/etc/passwd", "a", "a/b/c", "a/.", "\0/b"])
async def test_the_storage_takes_no_key_but_its_own(kept: Kept, key: str) -> None:
    with pytest.raises(Problem) as caught:
        await kept.first.files.upload_file(key, b"x")
    assert caught.value.code == "no_such_file"


async def test_only_the_author_rates_and_takes_a_rating_back(kept: Kept, client: httpx.AsyncClient) -> None:
    """A shared chat shows its ids: they are not enough."""
    _, step_id, _ = await chat_of_ada(kept)
    body = {"feedback": {"forId": step_id, "value": 1, "comment": "right"}, "sessionId": "s"}

    async def rated(name: str) -> int:
        return (await client.put("/feedback", json=body, headers={"who": name})).status_code

    assert [await rated(name) for name in ("bob", "", "ada")] == [404, 404, 200]
    feedback = (await kept.first.get_step(step_id) or {})["feedback"]
    assert feedback is not None
    assert (feedback["value"], feedback["comment"]) == (1, "right")

    async def taken_back(name: str) -> int:
        request = {"json": {"feedbackId": feedback["id"]}, "headers": {"who": name}}
        return (await client.request("DELETE", "/feedback", **request)).status_code

    assert [await taken_back(name) for name in ("bob", "ada", "ada")] == [404, 200, 404]
    assert (await kept.first.get_step(step_id) or {})["feedback"] is None
    assert (await client.put("/feedback", content=b"{", headers={"who": "ada"})).status_code == 422


async def test_a_request_that_fails_is_told_in_one_sentence(kept: Kept, client: httpx.AsyncClient) -> None:
    _, _, address = await chat_of_ada(kept)
    away = "ALTER TABLE threads RENAME TO away"
    await kept.first.database.write(lambda connection: connection.exec_driver_sql(away).rowcount)
    answer = await client.get(address, headers={"who": "ada"})
    assert answer.status_code == 503
    assert answer.json()["code"] == "history_unreachable"
    assert answer.json()["detail"].endswith("or set READONCE_HOME to another folder.")
