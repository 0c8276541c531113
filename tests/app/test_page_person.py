"""The one local person: logged in with the page itself, as long as nobody else has an account."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from chainlit.auth.jwt import decode_jwt
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from app.page.person import LOCAL, LocalLogin, without_user_menu
from app.page.secret import VARIABLE
from app.people.accounts import People
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE
from app.problem import Problem

HTML = {"accept": "text/html,*/*"}


async def test_a_browser_is_logged_in_with_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and only with a page: a login is kept, a broken one replaced; where people log in there is none."""
    monkeypatch.setenv(VARIABLE, "s" * 64)

    async def page(request: object) -> HTMLResponse:
        return HTMLResponse("<head></head>")

    with_login = False
    app = LocalLogin(Starlette(routes=[Route("/{path:path}", page)]), with_login=lambda: with_login)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert "set-cookie" not in (await client.get("/user")).headers
        given = await client.get("/", headers=HTML)
        assert decode_jwt(client.cookies["access_token"]).identifier == LOCAL
        assert "httponly" in given.headers["set-cookie"].lower()
        assert "samesite=lax" in given.headers["set-cookie"].lower()
        assert "set-cookie" not in (await client.get("/", headers=HTML)).headers
        client.cookies.clear()
        client.cookies.set("access_token", "broken")
        assert "set-cookie" in (await client.get("/thread/1", headers=HTML)).headers
        client.cookies.clear()
        with_login = True
        assert "set-cookie" not in (await client.get("/", headers=HTML)).headers


def test_the_page_of_the_local_person_has_nobody_to_log_out() -> None:
    assert without_user_menu("<head></head>") == "<head><style>#user-nav-button { display: none; }</style></head>"


def test_no_account_comes_upon_the_local_persons_chats(tmp_path: Path) -> None:
    """Chats are their identifier's, and no account can bear this one."""
    with pytest.raises(Problem) as told:
        People(Records.open(tmp_path)).add(OF_THIS_MACHINE, LOCAL)
    assert told.value.code == "bad_name"
