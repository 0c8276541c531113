"""Decides what a process that reads a file may not do: take more memory, leave a core dump, use a network."""

from __future__ import annotations

import sys
from typing import Any

from ingest.sockets import refuse_sockets

_NETWORK = frozenset(
    {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"}
)


def confine(max_memory_bytes: int) -> None:
    """Holds for this process until its end; it can't be undone.

    Python's own calls are refused by a hook, with a sentence; those of libraries in C by the kernel, where it can.
    """
    sys.addaudithook(_refuse_network)
    refuse_sockets()
    try:
        import resource
    except ImportError:  # Windows has no such limit; the time limit still holds.
        return
    resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _refuse_network(event: str, _: tuple[Any, ...]) -> None:
    if event in _NETWORK:
        raise OSError("a reading process uses no network")
