"""Attacks on who may, each really made on a served page: sites, names, old sessions, guesses, paths, logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from attack_kit import PASSWORD, Place, asked, opened, start, stop
from tiny import write_tiny_tokenizer
from websockets.exceptions import InvalidStatus

from app.page.secret import NAME
from app.page.welcome import PATH as WELCOME
from app.people.rights import OF_THIS_MACHINE

EVIL = "https://evil.example"
# What changes something, with a body that its route takes.
CHANGING = [
    ("POST", "/login", {"data": {"username": "anna", "password": PASSWORD}}),
    ("POST", "/logout", {}),
    ("POST", "/auth/header", {}),
    ("POST", "/auth/jwt", {}),
    ("POST", "/set-session-cookie", {"json": {"session_id": "x"}}),
    ("POST", "/project/action", {"json": {"action": {}, "sessionId": "x"}}),
    ("POST", "/project/file", {"files": {"file": b"x"}}),
    ("POST", "/project/threads", {"json": {}}),
    ("PUT", "/project/thread", {"json": {"threadId": "x", "name": "y"}}),
    ("PUT", "/project/thread/share", {"json": {"threadId": "x", "isShared": True}}),
    ("DELETE", "/project/thread", {"json": {"threadId": "x"}}),
    ("PUT", "/project/element", {"json": {}}),
    ("DELETE", "/project/element", {"json": {}}),
    ("PUT", "/feedback", {"json": {}}),
    ("DELETE", "/feedback", {"json": {}}),
    ("POST", "/mcp", {"json": {}}),
    ("POST", "/readonce/picked", {"content": b"x"}),
    ("POST", WELCOME, {"data": {"link": "x", "password": "y"}}),
    ("POST", "/v1/chat/completions", {"json": {}}),
    ("POST", "/v1/search", {"json": {}}),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = start(
        tmp_path_factory.mktemp("access") / "home", write_tiny_tokenizer(tmp_path_factory.mktemp("t"), qwen=True)
    )
    yield made
    stop(made)


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A page of one's own machine, without login."""
    tokenizer = write_tiny_tokenizer(tmp_path_factory.mktemp("t"), qwen=True)
    made = start(tmp_path_factory.mktemp("alone") / "home", tokenizer, login=False)
    yield made
    stop(made)


@pytest.fixture
def anna(place: Place) -> Iterator[httpx.Client]:
    with place.logged_in("anna") as client:
        yield client


def test_every_changing_route_of_the_page_is_attacked_below(place: Place) -> None:
    """A route that comes to be later is missing in the list until it is put there."""
    from chainlit.server import router

    there = {
        (method, route.path)
        for route in router.routes
        for method in getattr(route, "methods", ())
        if method not in ("GET", "HEAD") and "oauth" not in route.path
    }
    assert there - {(method, path) for method, path, _ in CHANGING} == {("DELETE", "/mcp")}


@pytest.mark.parametrize(("method", "path", "sent"), CHANGING, ids=[f"{each[0]} {each[1]}" for each in CHANGING])
@pytest.mark.parametrize(
    "headers",
    [{"origin": EVIL}, {"origin": "null"}, {}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}],
    ids=["foreign origin", "hidden origin", "no origin", "another site", "another port"],
)
def test_another_site_changes_nothing_with_somebodys_cookie(
    place: Place, anna: httpx.Client, method: str, path: str, sent: dict, headers: dict[str, str]
) -> None:
    """Cross-site request forgery: her browser sends the cookie along, the site's script chooses the rest."""
    with place.client(cookies=anna.cookies) as forged:
        assert forged.request(method, path, headers=headers, **sent).status_code == 403
    assert anna.get("/user").json()["identifier"] == "anna", "she is still logged in"


def test_every_refusal_of_a_stranger_has_a_code(place: Place) -> None:
    """Ours, over every route that there is: programs read the code, people the sentence.

    Chainlit's own are left as they are, since its page reads them: wrong passwords, and who one is.
    """
    from chainlit.server import router

    theirs = {"/user", "/login", "/auth/header", "/auth/jwt", "/set-session-cookie", "/logout"}
    paths = {(method, route.path) for route in router.routes for method in getattr(route, "methods", ())}
    paths |= {(method, path) for method, path, _ in CHANGING}
    kept, one = "/readonce/kept/x/y", "/documents/harbour/x"
    paths |= {("GET", path) for path in (kept, "/documents", one, f"{one}/file", "/cache", "/admin", "/v1/models")}
    paths |= {("POST", path) for path in ("/documents", f"{one}/delete", f"{one}/pin", "/readonce/bases")}
    seen = set()
    with place.client(headers=place.own | {"accept": "application/json"}) as stranger:
        for method, path in sorted(paths):
            if path in theirs or "oauth" in path:
                continue
            answer = stranger.request(method, re.sub(r"\{[^}]*\}", "x", path))
            if answer.status_code == 401 and method != "HEAD":
                told = answer.json()
                code = told["error"]["code"] if path.startswith("/v1/") else told.get("code")
                seen.add((method, path, code))
    assert len(seen) > 15
    assert {code for _, _, code in seen} == {"not_logged_in", "invalid_api_key"}, seen


def test_another_site_opens_no_socket(place: Place, anna: httpx.Client) -> None:
    """Cross-site WebSocket hijacking: browsers let any site open one, with the cookie."""
    with pytest.raises(InvalidStatus) as refused, opened(place, anna, origin=EVIL):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.example"])
def test_a_name_that_is_turned_to_this_machine_reaches_nothing(unguarded: Place, host: str) -> None:
    """DNS rebinding: the site's own name leads here, so that its script is of the same origin; nobody logs in here."""
    with unguarded.client() as client:
        headers = {"host": host, "origin": f"http://{host}"}
        for path in ("/", "/v1/files", "/v1/models", "/project/settings", "/readonce/state"):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 421
            assert "tide" not in answer.text
        assert client.post("/v1/search", json={"query": "tide"}, headers=headers).status_code == 421
        for own in (f"localhost:{unguarded.port}", f"127.0.0.1:{unguarded.port}", "[::1]:80", "192.0.2.7"):
            assert client.get("/v1/files", headers={"host": own}).status_code == 200


def test_no_inline_script_and_nothing_of_another_site_may_run_or_load(place: Place) -> None:
    """What a browser is told: scripts by file or by hash, and no image, frame, font, style or call to elsewhere."""
    with place.client() as client:
        for path in ("/", "/login", "/v1/models", "/readonce/state", WELCOME, "/public/readonce.js", "/nothing/there"):
            answer = client.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            policy = dict(each.split(" ", 1) for each in answer.headers["content-security-policy"].split("; "))
            assert "'unsafe-inline'" not in policy["script-src"]
            assert policy["default-src"] == "'self'"
            assert policy["frame-ancestors"] == "'self'"
            assert {policy[name] for name in ("object-src", "base-uri")} == {"'none'", "'self'"}
            assert not re.search(r"https?:|wss?:|\*", answer.headers["content-security-policy"])
        inline = re.findall(r"<script(?![^>]*src=)[^>]*>", client.get("/").text)
        hashes = re.findall(r"'sha256-[^']+'", client.get("/").headers["content-security-policy"])
        assert len(hashes) == len(inline) > 0


def test_cookies_are_out_of_reach_for_scripts_and_other_sites(place: Place) -> None:
    """HttpOnly and SameSite always, Secure behind a proxy that speaks HTTPS; the session's and Chainlit's other one."""
    outer = {"x-forwarded-proto": "https", "x-forwarded-host": "docs.example", "origin": "https://docs.example"}
    with place.client() as client:
        for headers, secure in ((place.own, False), (outer, True)):
            login = client.post("/login", data={"username": "ben", "password": PASSWORD}, headers=headers)
            cookies = {"cookie": login.headers["set-cookie"].partition(";")[0]}
            other = client.post("/set-session-cookie", json={"session_id": "x"}, headers=headers | cookies)
            for answer in (login, other):
                flags = answer.headers["set-cookie"].lower()
                assert "httponly" in flags
                assert "samesite=lax" in flags
                assert ("secure" in flags) is secure


def test_a_new_login_makes_a_new_cookie_whatever_was_sent(place: Place) -> None:
    """Session fixation: a cookie that somebody else has planted is not taken over."""
    with place.client(headers=place.own, cookies={"access_token": "planted"}) as client:
        answer = client.post("/login", data={"username": "ben", "password": PASSWORD})
        assert "planted" not in answer.headers["set-cookie"]


@pytest.mark.parametrize("ending", ["disabled", "role", "logout", "reset"])
def test_an_open_socket_ends_with_its_session(place: Place, ending: str) -> None:
    """An answer that is being written breaks off; the socket is closed, and none is opened with the old cookie."""
    people = place.desk.people
    name = f"eve-{ending}"
    people.use_link(people.add(OF_THIS_MACHINE, name) or "", PASSWORD)
    place.desk.library.share(OF_THIS_MACHINE, "harbour", person=name)
    with place.logged_in(name) as client, opened(place, client) as chat:
        chat.listen_for("set_modes")
        chat.say("When is high water at the mole, says who, and on what day of the week?")
        chat.listen_for("stream_token")
        if ending == "disabled":
            people.disable(OF_THIS_MACHINE, name)
        elif ending == "role":
            people.set_admin(OF_THIS_MACHINE, name, True)
        elif ending == "reset":
            people.reset(OF_THIS_MACHINE, name)
        else:
            assert client.post("/logout").status_code == 200
        heard = len(chat.heard)
        assert chat.until_closed() == 1008
        assert all(event != "task_end" for event, _ in chat.heard[heard:]), "the answer went on to its end"
        with pytest.raises((RuntimeError, InvalidStatus)), opened(place, client):
            pass
        assert client.get("/user").status_code == 401


def test_a_socket_of_single_requests_ends_with_its_session_too(place: Place) -> None:
    """A browser that has no real socket yet polls by a name that it was given, which is no longer enough."""
    people = place.desk.people
    people.use_link(people.add(OF_THIS_MACHINE, "pia") or "", PASSWORD)
    with place.logged_in("pia") as client:
        path = "/ws/socket.io/?EIO=4&transport=polling"
        sid = client.get(path).text.partition('"sid":"')[2].partition('"')[0]
        assert client.post(f"{path}&sid={sid}", content='40{"sessionId":"s","clientType":"webapp"}').text == "OK"
        people.disable(OF_THIS_MACHINE, "pia")
        assert client.get(f"{path}&sid={sid}").status_code == 401
        assert client.post(f"{path}&sid={sid}", content='42["connection_successful"]').status_code == 401


def test_a_disabled_persons_question_on_an_open_socket_is_refused(place: Place) -> None:
    """The next question, before the socket is closed."""
    people = place.desk.people
    people.use_link(people.add(OF_THIS_MACHINE, "fay") or "", PASSWORD)
    place.desk.library.share(OF_THIS_MACHINE, "harbour", person="fay")
    with place.logged_in("fay") as client, opened(place, client) as chat:
        chat.listen_for("set_modes")
        people.disable(OF_THIS_MACHINE, "fay")
        chat.say("When is high water at the mole?")
        chat.until_closed()
        assert "06:40" not in str(chat.heard)


def test_guessing_a_password_ends_after_five_tries(place: Place) -> None:
    """With the right one too, on whatever spelling of the name; other people still get in."""
    people = place.desk.people
    people.use_link(people.add(OF_THIS_MACHINE, "gil") or "", PASSWORD)
    with place.client(headers=place.own) as client:
        tries = [
            client.post("/login", data={"username": name, "password": "guess"}) for name in ("gil", "GIL", "Gil") * 2
        ]
        assert {each.status_code for each in tries} == {401}
        assert client.post("/login", data={"username": "gil", "password": PASSWORD}).status_code == 401
        assert client.post("/login", data={"username": "ben", "password": PASSWORD}).status_code == 200


def test_an_unknown_name_is_answered_word_for_word_like_a_wrong_password(place: Place) -> None:
    """Nobody learns who has an account."""
    with place.client(headers=place.own) as client:
        answers = [client.post("/login", data={"username": name, "password": "guess"}) for name in ("ben", "nobody")]
    assert answers[0].status_code == answers[1].status_code == 401
    assert answers[0].text == answers[1].text


PATHS = ["../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/records.db", "..\\..\\records.db"]


@pytest.mark.parametrize("path", [*PATHS, "/etc/passwd", "....//....//etc/passwd", "records.db%00.js"])
@pytest.mark.parametrize("route", ["/public/", "/assets/", "/avatars/", "/copilot/", "/project/file/", "/v1/files/"])
def test_no_file_outside_its_folder_is_served(place: Place, anna: httpx.Client, route: str, path: str) -> None:
    """Path traversal, as it is and written in escapes; sent as it stands, which httpx alone would tidy up."""
    cookie = f"access_token={anna.cookies['access_token']}"
    told = f"GET {route}{path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    with place.raw(told.encode()) as wire:
        answer = wire.makefile("rb").read()
    assert b"root:" not in answer
    assert b"SQLite format" not in answer
    assert (place.home / NAME).read_bytes() not in answer


@pytest.mark.parametrize(
    "path", [f"//{urlsplit(EVIL).netloc}", f"//{urlsplit(EVIL).netloc}/%2e%2e", f"/\\{EVIL}", "/v1//x"]
)
def test_no_address_leads_a_browser_elsewhere(place: Place, path: str) -> None:
    """Open redirects: by a path that looks like a host, and by what a login is told to go on with."""
    told = f"GET {path} HTTP/1.1\r\nHost: localhost:{place.port}\r\nConnection: close\r\n\r\n"
    with place.raw(told.encode()) as wire:
        head = wire.makefile("rb").read().partition(b"\r\n\r\n")[0].decode("latin-1")
    location = re.search(r"^location: (\S+)", head, re.IGNORECASE | re.MULTILINE)
    assert location is None or urlsplit(location[1]).netloc in ("", f"localhost:{place.port}")
    with place.client(headers=place.own, follow_redirects=False) as client:
        for name in ("next", "redirect", "redirectTo", "callbackUrl", "return_to"):
            answer = client.post(asked("/login", **{name: EVIL}), data={"username": "ben", "password": PASSWORD})
            assert "location" not in answer.headers


def test_a_key_in_an_address_opens_nothing(place: Place) -> None:
    """Addresses are kept in histories and logs; a key counts in its header only."""
    with place.client() as client:
        for name in ("key", "api_key", "access_token", "token", "authorization"):
            assert client.get(asked("/v1/models", **{name: place.key})).status_code == 401
        assert client.get("/v1/models", headers={"authorization": f"Bearer {place.key}"}).status_code == 200


def test_a_persons_cookie_is_no_key_and_a_key_is_no_cookie(place: Place, anna: httpx.Client) -> None:
    """Each is good in its own place only."""
    token = anna.cookies["access_token"]
    with place.client() as client:
        assert client.get("/v1/models", headers={"authorization": f"Bearer {token}"}).status_code == 401
        assert client.get("/user", headers={"cookie": f"access_token={place.key}"}).status_code == 401
        assert client.get("/user", headers={"authorization": f"Bearer {token}"}).status_code == 401


def test_the_most_talkative_log_holds_no_secret(place: Place, anna: httpx.Client) -> None:
    """Every logger at debug: keys, one-time links, passwords and cookies that went over the wire are nowhere in it."""
    link = place.desk.people.reset(OF_THIS_MACHINE, "ben")
    with place.client(headers=place.own) as client:
        assert client.get(WELCOME, params={"link": link}).status_code == 200
        assert client.post(WELCOME, data={"link": link, "password": PASSWORD}).status_code == 303
        client.post("/login", data={"username": "ben", "password": "a wrong guess of mine"})
        client.get("/v1/models", headers={"authorization": f"Bearer {place.key}"})
        client.get(asked("/v1/models", api_key=place.key))
    with opened(place, anna) as chat:
        chat.listen_for("set_modes")
    log = place.said()
    assert "GET /v1/models" in log, "the log tells of what was asked"
    secrets = [*place.secrets, link, "a wrong guess of mine", anna.cookies["access_token"], chat.session]
    assert [secret for secret in secrets if secret in log] == []
    kept = [path for path in place.home.rglob("*.log") if any(secret in path.read_text() for secret in secrets)]
    assert kept == []


def test_what_is_kept_of_a_login_is_not_what_was_typed(place: Place) -> None:
    """The files of the home hold no password, no key and no link as they were sent."""
    place.desk.people.log_in("anna", PASSWORD)
    for path in place.home.glob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(secret.encode() in data for secret in place.secrets), path
