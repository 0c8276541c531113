"""What the page lets through: own origin only, bodies up to the limit, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.page.guard import PageGuard
from app.page.origin import own_names
from app.page.policy import Policy


async def upload(request: Request) -> JSONResponse:
    body = await request.body()
    if not body:
        raise AssertionError("what Chainlit does with an empty file")
    return JSONResponse({"size": len(body)})


async def hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def socket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("open")
    await websocket.close()


def state_of(accept: str) -> dict[str, str]:
    return {"state": "starting", "sentence": f"asked in {accept}"}


PICKED: list[str] = []
POLICY = Policy()


@pytest.fixture
def client() -> Iterator[TestClient]:
    files = [Route("/public/ours.js", hello), Route("/project/file", upload, methods=["POST"])]
    app = Starlette(routes=[Route("/", hello), *files, WebSocketRoute("/ws", socket)])
    app.add_middleware(PageGuard, state_of=state_of, picked=PICKED.append, most_mib=1, policy=POLICY, names=own_names)
    PICKED.clear()
    with TestClient(app, base_url="http://localhost:8756") as client:
        yield client


def test_a_page_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    """The policy is on every answer: images, styles and scripts from the page's own origin only."""
    headers = client.get("/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "img-src 'self' data: blob:" in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_a_file_of_ours_is_never_days_older_than_its_page(client: TestClient) -> None:
    """A browser that is told nothing keeps a file for a tenth of its age; answers other than files are not kept."""
    assert client.get("/public/ours.js").headers["cache-control"] == "max-age=300"
    assert "cache-control" not in client.get("/").headers


def test_other_sites_learn_no_address_and_our_own_forms_say_where_they_come_from(client: TestClient) -> None:
    """With no referrer at all a browser would send a form's origin as null, which is refused as a stranger's."""
    assert client.get("/").headers["referrer-policy"] == "same-origin"


def test_the_page_names_no_other_host_to_connect_to() -> None:
    """Chainlit's own index.html: what is preloaded from elsewhere goes, what is its own stays."""
    index = Path(str(find_spec("chainlit").origin)).parent / "frontend" / "dist" / "index.html"
    html = index.read_text(encoding="utf-8")
    assert "https://" in html
    cleaned = Policy().page(html)
    assert "https://" not in cleaned
    assert '<link rel="stylesheet" crossorigin href="/assets/' in cleaned
    assert cleaned.count("<script") == html.count("<script")


def test_another_site_can_neither_ask_nor_open_a_socket(client: TestClient) -> None:
    """A page in another tab must not reach the documents of this machine."""
    assert client.get("/", headers={"origin": "https://evil.example"}).status_code == 403
    assert client.get("/", headers={"origin": "null"}).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("ws://localhost:8756/ws", headers={"origin": "https://evil.example"}),
    ):
        pass


def test_the_own_origin_passes_behind_a_proxy_too(client: TestClient) -> None:
    """The proxy's outer name comes in X-Forwarded-Host, which another site's page can't set on a socket."""
    assert client.get("/", headers={"origin": "http://localhost:8756"}).text == "hello"
    forwarded = {"origin": "https://docs.example", "x-forwarded-host": "docs.example"}
    assert client.get("/", headers=forwarded).text == "hello"
    with client.websocket_connect("ws://localhost:8756/ws", headers={"origin": "http://localhost:8756"}) as opened:
        assert opened.receive_text() == "open"


def test_an_upload_over_the_limit_is_refused_by_its_length_and_by_its_bytes(client: TestClient) -> None:
    """A length that is told is enough; a body that tells none is cut off where it goes past."""

    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * 65_536

    for body in (b"x" * (2 * 1024 * 1024), endless()):
        answer = client.post("/project/file", content=body)
        assert answer.status_code == 413
        assert answer.json()["detail"] == "it is larger than 1 MB; split it."
    assert client.post("/project/file", content=b"x" * 1000).json() == {"size": 1000}


def test_an_empty_file_gets_a_sentence(client: TestClient) -> None:
    """Chainlit would answer with an error page."""
    answer = client.post("/project/file", content=b"")
    assert answer.status_code == 400
    assert "nothing in it" in answer.json()["detail"]


def test_the_state_is_told_in_the_readers_language(client: TestClient) -> None:
    """The page asks for it once a second; it is never kept by a cache."""
    answer = client.get("/readonce/state", headers={"accept-language": "zh-CN"})
    assert answer.json() == {"state": "starting", "sentence": "asked in zh-CN"}
    assert answer.headers["cache-control"] == "no-store"


def test_what_was_picked_is_handed_on_by_its_name(client: TestClient) -> None:
    """From the page itself only, and never more than a name's length."""
    own = {"origin": "http://localhost:8756"}
    assert client.post("/readonce/picked", content="安全说明", headers=own).status_code == 200
    assert client.post("/readonce/picked", content="x" * 5000, headers=own).status_code == 200
    assert client.post("/readonce/picked", content="y", headers={"origin": "http://elsewhere"}).status_code == 403
    assert PICKED == ["安全说明", "x" * 1024]
