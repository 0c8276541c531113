"""A small OpenAI-compatible server for the client's tests: it plays one script, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine.client import Client
from engine.server import RunningEngine


@dataclass
class Double:
    """What the server does, and what it saw.

    Attributes:
        chunks: Sent one by one as server-sent events; a float among them is a pause in seconds, `"cut"` ends the
            connection without a word.
        refuse: Gets a request's body; an (HTTP status, message) refuses it.
        route: Gets method, path and body; an (HTTP status, value) is the whole answer, as JSON.
        requests: (method, path, token) of each request.
        traceparents: What each request's trace continues from.
    """

    chunks: list[Any] = field(default_factory=list)
    refuse: Callable[[dict[str, Any]], tuple[int, str] | None] = lambda body: None
    route: Callable[[str, str, dict[str, Any]], tuple[int, Any] | None] = lambda method, path, body: None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    traceparents: list[str | None] = field(default_factory=list)
    num_broken_pipes: int = 0
    url: str = ""


def words(text: str, ids: list[int] | None = None, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}
    return _chunk([choice | ({"token_ids": ids} if ids is not None else {})], None)


def usage(prompt: int, output: int, cached: int | None) -> dict[str, Any]:
    details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached is not None else {}
    total = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return _chunk([], total | details)


def _chunk(choices: list[dict[str, Any]], total: dict[str, Any] | None) -> dict[str, Any]:
    return {"id": "c", "object": "text_completion", "created": 0, "model": "m", "choices": choices, "usage": total}


@contextmanager
def serving(double: Double) -> Iterator[Double]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            double.bodies.append(body)
            double.requests.append((self.command, self.path, self.headers.get("Authorization")))
            double.traceparents.append(self.headers.get("traceparent"))
            refusal = double.refuse(body)
            if refusal is not None:
                self.answer(refusal[0], {"error": {"message": refusal[1], "code": refusal[0]}})
                return
            whole = double.route(self.command, self.path, body)
            if whole is not None:
                self.answer(*whole)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                for chunk in double.chunks:
                    if chunk == "cut":
                        self.connection.close()
                        return
                    if isinstance(chunk, float):
                        time.sleep(chunk)
                    else:
                        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                double.num_broken_pipes += 1

        do_GET = do_PATCH = do_DELETE = do_POST  # noqa: N815, the names that the base class calls

        def answer(self, status: int, value: Any) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 256

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    double.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()


def client_of(double: Double, **changes: object) -> Client:
    """A client of the double, as of a server without our routes."""
    running = RunningEngine(double.url, "m", "life-1", max_model_len=100, block_size=32)
    return Client(running, **changes)  # type: ignore[arg-type]
