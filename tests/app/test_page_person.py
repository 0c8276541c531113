"""The one local person: logged in with the page itself, by a secret that stays, on this machine alone."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import httpx
import pytest
from chainlit.auth.jwt import decode_jwt
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from app import page_person
from app.page_person import LOCAL, SECRET, SECRET_VARIABLE, LocalLogin, is_this_machine, sign_logins, without_user_menu

HTML = {"accept": "text/html,*/*"}


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
    ],
)
def test_only_a_loopback_page_has_a_local_person(host: str, alone: bool) -> None:
    assert is_this_machine(host) is alone


def test_the_secret_stays_and_only_its_owner_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login outlives a restart; one that was given is left alone."""
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    sign_logins(tmp_path)
    first = os.environ[SECRET_VARIABLE]
    assert len(first) >= 64
    assert (tmp_path / SECRET).stat().st_mode & 0o777 == 0o600
    monkeypatch.delenv(SECRET_VARIABLE)
    sign_logins(tmp_path)
    assert os.environ[SECRET_VARIABLE] == first
    monkeypatch.setenv(SECRET_VARIABLE, "given")
    sign_logins(tmp_path)
    assert os.environ[SECRET_VARIABLE] == "given"
    monkeypatch.delenv(SECRET_VARIABLE)
    assert sorted(path.name for path in tmp_path.iterdir()) == [SECRET]


def test_two_that_start_at_once_sign_alike(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(page_person._secret(tmp_path / SECRET))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


async def test_a_browser_is_logged_in_with_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: whoever has a login keeps it, a broken one is replaced, and nothing but a page gives one."""
    monkeypatch.setenv(SECRET_VARIABLE, "s" * 64)

    async def page(request: object) -> HTMLResponse:
        return HTMLResponse("<head></head>")

    app = LocalLogin(Starlette(routes=[Route("/{path:path}", page)]))
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


def test_the_page_of_the_local_person_has_nobody_to_log_out() -> None:
    assert without_user_menu("<head></head>") == "<head><style>#user-nav-button { display: none; }</style></head>"
