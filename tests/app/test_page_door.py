"""Who passes before Chainlit: cookies of ended sessions are taken away, failed logins counted, proxies believed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from rights_kit import PASSWORD, log_in_as
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app.page import login as page_login
from app.page import welcome as page_welcome
from app.page.door import PageDoor
from app.page.login import Login
from app.page.policy import Policy
from app.page.proxies import behind_proxies
from app.page.secret import secret
from app.people.attempts import MOST_FAILURES_AN_ADDRESS
from app.people.desk import Desk, is_this_machine, login_needed
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE
from app.problem import Problem
from app.settings import Settings


async def echo(request: Request) -> JSONResponse:
    """What Chainlit would get to see."""
    return JSONResponse({name: request.headers.get(name) for name in ("cookie", "authorization", "x-user")})


async def log_in(request: Request) -> JSONResponse:
    answered = JSONResponse({}, 200 if await request.body() == b"right" else 401)
    answered.set_cookie("access_token", "new", httponly=True)
    return answered


@pytest.fixture
def people(tmp_path: Path, quick_hashes: None) -> Desk:
    return Desk.of(Records.open(tmp_path))


@pytest.fixture
def login(people: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Login:
    """Chainlit's own registration is left out: it is one for the whole process."""
    monkeypatch.setattr(Login, "_register", lambda self: None)
    monkeypatch.setenv("CHAINLIT_AUTH_SECRET", secret(tmp_path))
    monkeypatch.setenv("READONCE_LOGIN_HEADER", "X-User")
    return Login(Settings.load(), people, "127.0.0.1")


@pytest.fixture
def client(people: Desk, login: Login) -> Iterator[TestClient]:
    routes = [Route("/user", echo), Route("/assets/x", echo), Route("/login", log_in, methods=["POST"])]
    routes += [Route(page_welcome.PATH, page_welcome.welcome(lambda: people.people), methods=["GET", "POST"])]
    app = Starlette(routes=routes)
    app.add_middleware(
        PageDoor,
        login=login,
        people=people.people,
        tried=people.addresses,
        header="X-User",
        proxies="127.0.0.1, 192.0.2.1",
        policy=Policy(),
    )
    with TestClient(app, client=("192.0.2.1", 50_000)) as made:
        yield made


def cookie_of(people: Desk, name: str) -> str:
    """What Chainlit gives to who has just logged in."""
    from chainlit.auth import create_jwt

    user = page_login._user(people.people.log_in(name, PASSWORD), "credentials")
    assert user is not None
    return create_jwt(user)


def seen(client: TestClient, token: str, **headers: str) -> dict[str, str | None]:
    return client.get("/user", headers={"cookie": f"oauth_state=s; access_token={token}", **headers}).json()


@pytest.mark.parametrize("ending", ["disabled", "reset", "role", "logout"])
def test_a_cookie_is_gone_with_its_session(people: Desk, client: TestClient, ending: str) -> None:
    """It passes until the session ends, and not once after; other cookies stay."""
    people.people.use_link(people.people.first_admin(), PASSWORD)
    people.people.add(OF_THIS_MACHINE, "anna")
    log_in_as(people, "anna")
    token = cookie_of(people, "anna")
    assert token in seen(client, token)["cookie"]
    if ending == "disabled":
        people.people.disable(OF_THIS_MACHINE, "anna")
    elif ending == "reset":
        people.people.reset(OF_THIS_MACHINE, "anna")
    elif ending == "role":
        people.people.set_admin(OF_THIS_MACHINE, "anna", True)
    else:
        people.people.end_sessions("anna")
    assert seen(client, token)["cookie"] == "oauth_state=s"


def test_a_cookie_that_is_not_ours_or_comes_by_another_header_opens_nothing(people: Desk, client: TestClient) -> None:
    """Forged, signed with another key, or sent as a bearer."""
    people.people.add(OF_THIS_MACHINE, "anna")
    log_in_as(people, "anna")
    token = cookie_of(people, "anna")
    for wrong in ("nonsense", token[:-4] + "abcd", token.rpartition(".")[0] + "."):
        assert seen(client, wrong)["cookie"] == "oauth_state=s"
    assert seen(client, "x", authorization=f"Bearer {token}")["authorization"] is None
    cut = {"cookie": f"access_token_0={token[:50]}; access_token_1={token[50:]}"}
    assert client.get("/user", headers=cut).json()["cookie"] == cut["cookie"]


def test_login_begins_with_the_first_account(people: Desk, login: Login, client: TestClient) -> None:
    """Without one the page is for who sits at the machine; from then on nobody passes without a session."""
    assert login.required(None, "out") == OF_THIS_MACHINE
    assert seen(client, "x")["cookie"] == "oauth_state=s; access_token=x"
    people.people.add(OF_THIS_MACHINE, "anna")
    assert seen(client, "x")["cookie"] == "oauth_state=s"
    with pytest.raises(Problem, match="out") as told:
        login.required("x", "out")
    assert told.value.code == "not_logged_in"


def test_a_proxys_header_counts_from_a_proxy_alone(people: Desk, client: TestClient) -> None:
    """Anybody can write a header; who is no proxy has it taken away."""
    assert client.get("/user", headers={"x-user": "anna"}).json()["x-user"] == "anna"
    with TestClient(client.app, client=("198.51.100.9", 50_000)) as stranger:
        assert stranger.get("/user", headers={"x-user": "anna"}).json()["x-user"] is None


def test_a_proxy_that_names_its_client_is_still_the_proxy(people: Desk, client: TestClient) -> None:
    """As proxies do: their person's header is believed all the same, and nobody becomes a proxy by naming one."""
    behind = behind_proxies(client.app, "192.0.2.1")
    asked = {"x-user": "anna", "x-forwarded-for": "203.0.113.7"}
    with TestClient(behind, client=("192.0.2.1", 50_000)) as proxy:
        assert proxy.get("/user", headers=asked).json()["x-user"] == "anna"
    with TestClient(behind, client=("198.51.100.9", 50_000)) as stranger:
        assert stranger.get("/user", headers={**asked, "x-forwarded-for": "192.0.2.1"}).json()["x-user"] is None


def test_behind_a_proxy_failed_logins_count_for_the_client_that_it_names(people: Desk, client: TestClient) -> None:
    """One who guesses does not keep all others out."""
    people.people.add(OF_THIS_MACHINE, "anna")
    with TestClient(behind_proxies(client.app, "192.0.2.1"), client=("192.0.2.1", 50_000)) as proxy:
        guesser, other = {"x-forwarded-for": "203.0.113.7"}, {"x-forwarded-for": "203.0.113.8"}
        codes = [
            proxy.post("/login", content=b"wrong", headers=guesser).status_code for _ in range(MOST_FAILURES_AN_ADDRESS)
        ]
        assert set(codes) == {401}
        assert proxy.post("/login", content=b"right", headers=guesser).status_code == 429
        assert proxy.post("/login", content=b"right", headers=other).status_code == 200


def test_an_address_is_shut_out_after_too_many_failures(people: Desk, client: TestClient) -> None:
    """With the right password too; a login that succeeds is no failure."""
    people.people.add(OF_THIS_MACHINE, "anna")
    assert client.post("/login", content=b"right").status_code == 200
    for _ in range(MOST_FAILURES_AN_ADDRESS):
        assert client.post("/login", content=b"wrong").status_code == 401
    assert client.post("/login", content=b"right").status_code == 429
    with TestClient(client.app, client=("198.51.100.9", 50_000)) as other:
        assert other.post("/login", content=b"right").status_code == 200


def test_over_https_the_cookie_stays_there(people: Desk, client: TestClient) -> None:
    """A proxy tells by X-Forwarded-Proto; never readable by a script, never sent along from another site's form."""
    people.people.add(OF_THIS_MACHINE, "anna")
    served = behind_proxies(client.app, "192.0.2.1")
    told = {"x-forwarded-proto": "https"}
    with TestClient(served, client=("192.0.2.1", 50_000)) as proxy:
        plain = proxy.post("/login", content=b"right").headers["set-cookie"]
        outer = proxy.post("/login", content=b"right", headers=told).headers["set-cookie"]
    with TestClient(served, client=("198.51.100.9", 50_000)) as stranger:
        claimed = stranger.post("/login", content=b"right", headers=told).headers["set-cookie"]
    assert "Secure" not in plain
    assert "Secure" not in claimed, "who is no proxy is not believed"
    assert outer.endswith("; Secure")
    assert "HttpOnly" in outer
    assert "SameSite=lax" in outer


def test_a_one_time_link_sets_a_password_in_the_browser(people: Desk, client: TestClient) -> None:
    """The form, a refusal that keeps the link, the password; then the link is as if it had never been."""
    link = page_welcome.link("http://localhost:8756", people.people.add(OF_THIS_MACHINE, "anna"))
    assert link.startswith("http://localhost:8756/readonce/welcome?link=")
    words = parse_qs(urlsplit(link).query)["link"][0]
    form = client.get(page_welcome.PATH, params={"link": words})
    assert form.status_code == 200
    assert "Welcome, anna" in form.text
    assert re.search(r'name="link" value="([^"]+)"', form.text).group(1) == words
    short = client.post(page_welcome.PATH, data={"link": words, "password": "short"})
    assert short.status_code == 422
    assert 'role="alert"' in short.text
    done = client.post(page_welcome.PATH, data={"link": words, "password": PASSWORD}, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/login")
    sheets = re.findall(r'<link rel="(?:stylesheet|icon)" href="([^"]+)">', form.text)
    assert sheets == ["/public/favicon.svg", "/readonce/theme.css", "/public/documents.css"]
    assert people.people.log_in("anna", PASSWORD) is not None
    again = [client.get(page_welcome.PATH, params={"link": wrong}) for wrong in (words, "no such", "<script>")]
    again.append(client.post(page_welcome.PATH, data={"link": words, "password": PASSWORD}))
    assert {(answer.status_code, answer.text) for answer in again} == {(404, again[0].text)}
    assert client.post(page_welcome.PATH, content=b"x" * 100_000).status_code == 413


def test_a_one_time_link_works_where_a_proxy_serves_the_page_below_a_folder(people: Desk, client: TestClient) -> None:
    """All that the form names is below the folder too."""
    below = TestClient(client.app, root_path="/below", client=("192.0.2.1", 50_000))
    words = people.people.add(OF_THIS_MACHINE, "anna") or ""
    form = below.get(page_welcome.PATH, params={"link": words})
    named = re.findall(r'(?:href|action)="([^"]+)"', form.text)
    assert f"/below{page_welcome.PATH}" in named
    assert {each[: len("/below/")] for each in named} == {"/below/"}
    done = below.post(page_welcome.PATH, data={"link": words, "password": PASSWORD}, follow_redirects=False)
    assert done.headers["location"] == "/below/login"


@pytest.mark.parametrize(
    ("login", "host", "anybody", "needed"),
    [
        ("auto", "127.0.0.1", False, False),
        ("auto", "localhost", True, True),
        ("auto", "0.0.0.0", False, True),
        ("on", "::1", False, True),
        ("off", "127.0.0.1", True, False),
        ("off", "0.0.0.0", False, None),
    ],
)
def test_a_page_that_others_reach_asks_who_they_are(
    people: Desk, monkeypatch: pytest.MonkeyPatch, login: str, host: str, anybody: bool, needed: bool | None
) -> None:
    """Without login there is a page on one's own machine only; off and open to others is refused."""
    monkeypatch.setenv("READONCE_LOGIN", login)
    if anybody:
        people.people.add(OF_THIS_MACHINE, "anna")
    if needed is None:
        with pytest.raises(Problem, match="for this machine only") as told:
            login_needed(Settings.load(), host, people.people)
        assert told.value.code == "login_needed"
    else:
        assert login_needed(Settings.load(), host, people.people) is needed


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("127.example.org", False),
    ],
)
def test_only_a_loopback_address_is_this_machine_alone(host: str, alone: bool) -> None:
    assert is_this_machine(host) is alone
