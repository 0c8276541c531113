"""What the tests about attacks bring along: a served page with people in it, raw connections, and a socket by hand."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from app.page.host import SAMPLES_ADDED
from app.people.desk import Desk, records_of
from app.people.rights import OF_THIS_MACHINE
from app.settings import Settings
from ingest.corpus import Corpus

ROOT = Path(__file__).resolve().parent.parent.parent
PASSWORD = "correct horse battery"
MOST_MIB = 1
TIDES = "# The tide book\n\nHigh water at the mole is at 06:40 on Monday, says the keeper of the light.\n"
PATIENCE_S = 30.0


@dataclass
class Place:
    """A page that is served, its records, and what its people know.

    Attributes:
        secrets: Passwords, keys and links that were ever sent to it.
    """

    home: Path
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    desk: Desk
    key: str = ""
    secrets: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def own(self) -> dict[str, str]:
        """What a browser says on this page."""
        return {"origin": self.url}

    def client(self, **values: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **values)

    @contextmanager
    def logged_in(self, name: str) -> Iterator[httpx.Client]:
        with self.client(headers=self.own) as client:
            answer = client.post("/login", data={"username": name, "password": PASSWORD})
            assert answer.status_code == 200, answer.text
            yield client

    def raw(self, sent: bytes) -> socket.socket:
        """A connection on which `sent` went out; nothing of the answer is read."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        made.sendall(sent)
        return made

    def said(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass
class Socket:
    """Chainlit's socket, spoken by hand: Engine.IO 4 in WebSocket frames."""

    wire: ClientConnection
    session: str
    heard: list[tuple[str, Any]] = field(default_factory=list)

    def send(self, event: str, *values: Any) -> None:
        self.wire.send("42" + json.dumps([event, *values]))

    def say(self, words: str, *file_ids: str) -> None:
        message = {
            "id": str(uuid.uuid4()),
            "name": "user",
            "type": "user_message",
            "output": words,
            "createdAt": "2026-01-01T00:00:00Z",
        }
        self.send("client_message", {"message": message, "fileReferences": [{"id": each} for each in file_ids]})

    def listen_for(self, event: str) -> Any:
        """Hears until `event` comes, and gives what came with it."""
        while True:
            heard, value = self.hear()
            if heard == event:
                return value

    def hear(self) -> tuple[str, Any]:
        """The next event. Raises: ConnectionClosed."""
        while True:
            frame = self.wire.recv(timeout=PATIENCE_S)
            assert isinstance(frame, str)
            if frame == "2":
                self.wire.send("3")
            elif frame.startswith("42"):
                event, *values = json.loads(frame[2:])
                self.heard.append((event, values[0] if values else None))
                return self.heard[-1]

    def until_closed(self) -> int:
        """Hears until the other side closes; the code that it closes with."""
        try:
            while True:
                self.hear()
        except ConnectionClosed as end:
            return end.rcvd.code if end.rcvd is not None else 1006


@contextmanager
def opened(place: Place, client: httpx.Client, origin: str | None = None) -> Iterator[Socket]:
    """A socket with the client's cookie; it has begun a chat.

    Raises: InvalidStatus where it is refused; RuntimeError where Chainlit refuses who opens it.
    """
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    address = f"ws://localhost:{place.port}/ws/socket.io/?EIO=4&transport=websocket"
    session = str(uuid.uuid4())
    with connect(address, origin=origin or place.url, additional_headers={"cookie": cookies}) as wire:  # type: ignore[arg-type]
        assert str(wire.recv(timeout=30)).startswith("0")
        wire.send("40" + json.dumps({"sessionId": session, "clientType": "webapp", "userEnv": "{}"}))
        answer = str(wire.recv(timeout=30))
        if not answer.startswith("40"):
            raise RuntimeError(answer)
        made = Socket(wire, session)
        made.send("connection_successful")
        yield made


def start(home: Path, tokenizer: Path, *, login: bool = True) -> Place:
    """A page on `home`, ready to answer, with anna's tide book; with login there are anna, ben and admin."""
    home.mkdir(parents=True)
    (home / SAMPLES_ADDED).touch()
    settings = Settings(home=home, embedder="hashing")
    corpus = Corpus.open(home, settings.ingest)
    filled: list[str] = []
    desk = Desk.of(records_of(settings), lambda: filled)
    key, secrets = "", [PASSWORD]
    if login:
        for name, admin in (("admin", True), ("anna", False), ("ben", False)):
            desk.people.use_link(desk.people.add(OF_THIS_MACHINE, name, admin=admin) or "", PASSWORD)
        desk.library.create(OF_THIS_MACHINE, "harbour", "anna")
        key = desk.keys.make(OF_THIS_MACHINE, "anna")[1]
        secrets.append(key)
    path = home.parent / "tides.md"
    path.write_text(TIDES)
    corpus.add(path, kb="harbour")
    filled.append("harbour")
    corpus.close()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    values = {
        "READONCE_HOME": str(home),
        "READONCE_EMBEDDER": "hashing",
        "READONCE_DEVICE": "cpu",
        "READONCE_MAX_FILE_MIB": str(MOST_MIB),
        "READONCE_ANSWER_TOKENS": "400",
        "PYTHONPATH": str(ROOT),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("READONCE_", "CHAINLIT_"))}
    log = home.parent / "page.log"
    with log.open("wb") as file:
        command = [sys.executable, str(ROOT / "tests" / "app" / "page_in_debug.py"), str(port), str(tokenizer)]
        process = subprocess.Popen(command, cwd=home.parent, env=kept | values, stdout=file, stderr=subprocess.STDOUT)
    place = Place(home, port, process, log, desk, key, secrets)
    end = time.monotonic() + PATIENCE_S
    with place.client() as client:
        while True:
            assert process.poll() is None, place.said()[-3000:]
            assert time.monotonic() < end, place.said()[-3000:]
            try:
                if client.get("/ready").status_code == 200:
                    return place
            except httpx.TransportError:
                pass
            time.sleep(0.1)


def stop(place: Place) -> None:
    place.desk.kept.close()
    if place.process.poll() is None:
        place.process.send_signal(signal.SIGTERM)
        place.process.wait(30)


def form(name: str, content: bytes, kind: str = "application/pdf") -> tuple[str, bytes]:
    """A multipart body with the name byte for byte, as no browser would send it. Gives type and body."""
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="'.encode()
    head += name.encode("utf-8", "surrogateescape") + f'"\r\nContent-Type: {kind}\r\n\r\n'.encode()
    return f"multipart/form-data; boundary={boundary}", head + content + f"\r\n--{boundary}--\r\n".encode()


def asked(path: str, **query: str) -> str:
    return path + "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
