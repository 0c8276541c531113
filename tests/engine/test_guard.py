"""Nobody without the token: every route of the app, whatever it is, but those that tell nothing."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from engine.guard import OPEN, Guard


async def answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse("in")


async def talk(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("in")
    await socket.close()


PATHS = ["/v1/models", "/invocations", "/tokenize", "/health", "/health/more", "/metrics", "/docs"]


@pytest.fixture
def client() -> TestClient:
    routes = [Route(path, answer, methods=["GET", "POST"]) for path in PATHS]
    app = Starlette(
        routes=[*routes, WebSocketRoute("/v1/realtime", talk)], middleware=[Middleware(Guard, token="secret")]
    )
    return TestClient(app)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_only_what_tells_nothing_answers_without_the_token(client: TestClient, path: str, method: str) -> None:
    """Also a route that only begins like an open one, and one of the open ones when it is posted to."""
    is_open = path in OPEN and method == "GET"
    assert client.request(method, path).status_code == (200 if is_open else 401)
    assert client.request(method, path, headers={"Authorization": "Bearer secret"}).text == "in"


@pytest.mark.parametrize(
    "given", ["secret", "Bearer", "Bearer  secret", "Bearer secret2", "Basic secret", "Bearer SECRET"]
)
def test_another_word_than_the_token_is_refused(client: TestClient, given: str) -> None:
    """One sentence with a code, and no hint of the token."""
    refused = client.get("/v1/models", headers={"Authorization": given})
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "token_refused"
    assert "secret" not in refused.text


def test_a_socket_wants_the_token_too(client: TestClient) -> None:
    """It is closed before it is accepted."""
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/v1/realtime"):
        pass
    with client.websocket_connect("/v1/realtime", headers={"Authorization": "Bearer secret"}) as socket:
        assert socket.receive_text() == "in"
