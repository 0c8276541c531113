"""Decides what users of an engine and its keeper say to each other: lines over a Unix socket in the state folder.

keeper, at once     {"instance": "...", "pid": 123}
user  lease         -> ok       this connection keeps the engine alive until it is closed, however its process ends
user  as KIND       -> ok       this lease is of a "command" (as each is at first), a "page" or a "holder"
user  linger N      -> ok       when this lease is closed and was the last, wait N seconds for the next one
user  leases        -> a number
user  users         -> how many leases of commands, pages and holders
user  stop          -> ok       end now, whoever else holds a lease
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import socket
import tempfile
from pathlib import Path
from types import TracebackType

_MAX_PATH_BYTES = 100  # the kernel takes 108, some of them for itself
_ANSWER_TIMEOUT_S = 5.0


def socket_path(state_dir: Path) -> Path:
    """Where the keeper of this folder's engine listens; in the temporary folder where the path would be too long."""
    path = Path(os.path.abspath(state_dir)) / "engine.sock"
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        return path
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"readonce-{os.getuid()}-{digest}.sock"


class Line:
    """A connection to a keeper.

    Raises:
        OSError: Nobody listens, or the listener is not ours.
    """

    def __init__(self, state_dir: Path) -> None:
        path = socket_path(state_dir)
        if path.lstat().st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to another user")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(_ANSWER_TIMEOUT_S)
            self._socket.connect(str(path))
            self._rest = b""
            greeting = json.loads(self._read())
            self.instance = str(greeting["instance"])
            self.pid = int(greeting["pid"])
        except BaseException:
            self._socket.close()
            raise

    def ask(self, words: str) -> str:
        """Says a line, returns the answer. Raises OSError if the keeper is gone."""
        self._socket.sendall(words.encode() + b"\n")
        return self._read()

    def is_alive(self) -> bool:
        """Whether the keeper still holds the other end."""
        readable, _, _ = select.select([self._socket], [], [], 0)
        try:
            return not readable or bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> str:
        while b"\n" not in self._rest:
            piece = self._socket.recv(4096)
            if not piece:
                raise ConnectionResetError("the engine has ended")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()
