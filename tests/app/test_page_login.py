"""What Chainlit is told of a login: who comes in by password, a proxy's header or OAuth; what a logout ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from rights_kit import PASSWORD, log_in_as

from app.page.login import Login
from app.page.secret import VARIABLE, secret
from app.people.desk import Desk
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE
from app.problem import Problem
from app.settings import Settings


@pytest.fixture
def people(tmp_path: Path, quick_hashes: None) -> Desk:
    made = Desk.of(Records.open(tmp_path))
    made.people.add(OF_THIS_MACHINE, "anna")
    log_in_as(made, "anna")
    return made


@pytest.fixture
def login(people: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Login:
    """Switched on, in Chainlit itself; what was registered goes with the test."""
    from chainlit.config import config

    for name in ("password_auth_callback", "header_auth_callback", "oauth_callback", "on_logout"):
        monkeypatch.setattr(config.code, name, None)
    monkeypatch.setattr(config.features, "allow_thread_sharing", False)
    monkeypatch.setenv(VARIABLE, secret(tmp_path))
    monkeypatch.setenv("READONCE_LOGIN_HEADER", "X-User")
    monkeypatch.setenv("OAUTH_GITHUB_CLIENT_ID", "id")
    monkeypatch.setenv("OAUTH_GITHUB_CLIENT_SECRET", "secret")
    made = Login(Settings.load(), people, "127.0.0.1")
    assert made.look()
    return made


async def test_a_password_lets_its_person_in(login: Login, people: Desk) -> None:
    """The cookie's user bears the session's number and no secret; a wrong one lets nobody in."""
    from chainlit.config import config

    user = await config.code.password_auth_callback("Anna", PASSWORD)
    session = people.people.find("anna").session
    assert (user.identifier, user.metadata) == (
        "anna",
        {"session": session, "role": "user", "provider": "credentials"},
    )
    assert await config.code.password_auth_callback("anna", "wrong") is None
    assert await config.code.password_auth_callback("ben", PASSWORD) is None


async def test_a_proxys_header_makes_an_account_and_takes_none_over(login: Login, people: Desk) -> None:
    """A name with a password of ours is not theirs to tell; without a header nobody comes in."""
    from chainlit.config import config

    user = await config.code.header_auth_callback({"X-User": "Mia"})
    assert (user.identifier, user.metadata["provider"]) == ("mia", "header")
    assert await config.code.header_auth_callback({"X-User": "anna"}) is None
    assert await config.code.header_auth_callback({}) is None
    people.people.disable(OF_THIS_MACHINE, "mia")
    assert await config.code.header_auth_callback({"X-User": "mia"}) is None


async def test_oauth_is_there_where_its_environment_is(login: Login) -> None:
    """The provider vouches for the names that it made, and for no other's."""
    from chainlit.config import config

    for name, expected in (("tom", "tom"), ("anna", None)):
        user = await config.code.oauth_callback("github", "token", {}, SimpleNamespace(identifier=name), None)
        assert (user and user.identifier) == expected
    google = await config.code.oauth_callback("google", "token", {}, SimpleNamespace(identifier="tom"), None)
    assert google is None


async def test_a_logout_ends_every_session_of_the_person(login: Login, people: Desk) -> None:
    """A cookie that was copied before is of no use after."""
    from chainlit.auth import create_jwt
    from chainlit.config import config

    token = create_jwt(await config.code.password_auth_callback("anna", PASSWORD))
    assert login.person_of(token) == people.people.find("anna")
    await config.code.on_logout(SimpleNamespace(cookies={"access_token": token}), None)
    assert login.person_of(token) is None
    assert await config.code.on_logout(SimpleNamespace(cookies={}), None) == {"success": True}


def test_the_first_account_ends_the_local_persons_login(
    people: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Chainlit asks for a password from then on, chats can be shared, and the old login opens nothing."""
    from chainlit.auth import create_jwt
    from chainlit.config import config

    from app.page.person import local_person

    for name in ("password_auth_callback", "header_auth_callback", "on_logout"):
        monkeypatch.setattr(config.code, name, None)
    monkeypatch.setattr(config.features, "allow_thread_sharing", False)
    monkeypatch.setenv(VARIABLE, secret(tmp_path))
    alone = Desk.of(Records.open(tmp_path / "alone"))
    login = Login(Settings.load(), alone, "127.0.0.1")
    config.code.header_auth_callback = local_person
    token = create_jwt(asyncio.run(local_person(None)))
    assert login.required(token, "x") == OF_THIS_MACHINE
    alone.people.add(OF_THIS_MACHINE, "anna")
    with pytest.raises(Problem, match="Log in again") as told:
        login.required(token, "Log in again.")
    assert told.value.code == "not_logged_in"
    assert config.code.header_auth_callback is None
    assert config.code.password_auth_callback is not None
    assert config.features.allow_thread_sharing is True
