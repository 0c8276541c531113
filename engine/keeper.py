"""Decides when the engine ends: it counts the leases, and stops everything soon after the last one is gone.

A lease is an open connection, so the kernel gives it back when its holder dies, however it dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from engine.users import KINDS, Kind
from engine.wire import socket_path

# A starter takes its lease within a second; one that died before must not leave an engine behind.
_FIRST_LEASE_S = 15.0
# vLLM waits for open streams when it is told to end; we do not.
_GRACE_S = 5.0
# The kernel counts what a poll waits in 31 bits of milliseconds, which are 24 days.
_LONGEST_WAIT_S = 86_400.0


@dataclass
class _User:
    received: bytes = b""
    holds_lease: bool = False
    kind: Kind = "command"
    linger_s: float = 0.0


class Keeper:
    """A thread beside the server. As a context manager it also tidies up when the server ends by itself.

    Args:
        state_dir: Where `engine.json` lies and users look for the socket.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._path = socket_path(state_dir)
        self._greeting = json.dumps({"instance": uuid.uuid4().hex[:16], "pid": os.getpid()}).encode() + b"\n"
        self._users: dict[socket.socket, _User] = {}
        self._ends_at: float | None = time.monotonic() + _FIRST_LEASE_S
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._tidied = threading.Event()

    def __enter__(self) -> Keeper:
        self._state_dir.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)  # the starter holds the lock: nobody alive listens there
        old_mask = os.umask(0o077)
        try:
            self._listener.bind(str(self._path))
        finally:
            os.umask(old_mask)
        self._listener.listen(128)
        threading.Thread(target=self._keep, name="readonce-keeper", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tidy()

    def _keep(self) -> None:
        try:
            self._watch()
        except (OSError, ValueError):
            if not self._tidied.is_set():
                raise
            return  # the server ended by itself, and closed the listener under our hands
        self._end()

    def _watch(self) -> None:
        """Returns when the last lease is gone and its time is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                wait_s = None if self._ends_at is None else self._ends_at - time.monotonic()
                if wait_s is not None and wait_s <= 0:
                    break
                for key, _ in selector.select(None if wait_s is None else min(wait_s, _LONGEST_WAIT_S)):
                    if key.fileobj is self._listener:
                        user, _ = self._listener.accept()
                        self._users[user] = _User()
                        selector.register(user, selectors.EVENT_READ)
                        with contextlib.suppress(OSError):
                            user.sendall(self._greeting)
                    elif isinstance(key.fileobj, socket.socket) and not self._hear(key.fileobj):
                        selector.unregister(key.fileobj)
                        self._leave(key.fileobj)

    def _hear(self, connection: socket.socket) -> bool:
        """Answers what a user says; False where the user is gone."""
        user = self._users[connection]
        try:
            piece = connection.recv(4096)
            if not piece:
                return False
            *lines, user.received = (user.received + piece).split(b"\n")
            for line in lines:
                connection.sendall(self._answer(user, line.decode("utf-8", "replace").split()).encode() + b"\n")
        except OSError:
            return False
        return True

    def _answer(self, user: _User, words: list[str]) -> str:
        match words:
            case ["lease"]:
                user.holds_lease = True
                self._ends_at = None
            case ["as", kind] if kind in KINDS:
                user.kind = kind
            case ["linger", seconds] if (given := _seconds(seconds)) is not None:
                user.linger_s = given
            case ["leases"]:
                return str(len(self._holders()))
            case ["users"]:
                kinds = [other.kind for other in self._holders()]
                return " ".join(str(kinds.count(kind)) for kind in KINDS)
            case ["stop"]:
                self._ends_at = time.monotonic()
            case _:
                return "what?"
        return "ok"

    def _leave(self, connection: socket.socket) -> None:
        user = self._users.pop(connection)
        connection.close()
        if user.holds_lease and not self._holders():
            self._ends_at = time.monotonic() + user.linger_s

    def _holders(self) -> list[_User]:
        return [user for user in self._users.values() if user.holds_lease]

    def _end(self) -> None:
        """Asks the server to end; after the grace, kills the whole process group."""
        self._listener.close()
        self._tidy()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_S)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def _tidy(self) -> None:
        """Nobody shall find an engine that is about to end. Once: by the second time another one may lie there.

        The listener is left to the thread that waits on it: closed under its feet it would raise there, and the log
        would tell of that instead of what ended the server.
        """
        if self._tidied.is_set():
            return
        self._tidied.set()
        for name in (self._path, self._state_dir / "engine.json"):
            name.unlink(missing_ok=True)


def _seconds(word: str) -> float | None:
    """None for what is no span of time: the thread that keeps the engine must not end by a word."""
    try:
        seconds = float(word)
    except ValueError:
        return None
    return seconds if seconds >= 0 else None
