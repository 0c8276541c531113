"""A model hub on this machine: the few routes that downloading a model needs, and a list of what was asked."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves `folder` as the model `hub_id`; with `status`, answers every request with it; with `silent`, never."""

    daemon_threads = True

    def __init__(self, folder: Path, hub_id: str, status: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.hub_id, self.status, self.headers = folder, hub_id, status, headers or {}
        self.asked: list[str] = []
        self.silent = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fetched(self) -> set[str]:
        """The files whose content was asked for."""
        return {path.rsplit("/", 1)[1] for path in self.asked if path.startswith("GET") and "/resolve/" in path}


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        hub = self.server
        hub.asked.append(f"{self.command} {self.path}")
        if hub.silent.is_set():
            threading.Event().wait(20)
            return
        if hub.status != 200:
            self._send(hub.status, b"{}", hub.headers)
            return
        path = self.path.partition("?")[0].strip("/")
        api = f"api/models/{hub.hub_id}"
        if path in (api, f"{api}/revision/main"):
            siblings = [{"rfilename": file.name} for file in sorted(hub.folder.iterdir())]
            self._send_json({"id": hub.hub_id, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False})
        elif path.startswith(f"{api}/tree/"):
            entries = [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": _oid(file)}
                for file in sorted(hub.folder.iterdir())
            ]
            self._send_json(entries)
        elif path.startswith(f"{hub.hub_id}/resolve/"):
            file = hub.folder / path.rsplit("/", 1)[1]
            self._send(200, file.read_bytes(), {"ETag": f'"{_oid(file)}"', "X-Repo-Commit": COMMIT})
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _oid(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    thread = threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
