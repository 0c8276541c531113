"""Decides that nothing of an engine outlives it: the one process that is started, and what ties its children to it.

    python -m engine.launch STATE_DIR -- vLLM's flags

It is vLLM's server, with a thread that counts who uses it (`keeper`). vLLM starts an engine core, and that a worker,
and both go on for ever if the server is killed; so each of them asks the kernel to be killed when its parent dies.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Has this process killed as soon as its parent is gone. Does nothing in the server itself.

    Runs in vLLM's children: as the `readonce` plugin (`vllm.general_plugins`), and already when a spawned child imports
    this module as its main module, before vLLM is loaded there. Harmless if it runs twice.
    """
    parent = multiprocessing.parent_process()
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent.pid:  # it died before we asked
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__mp_main__":
    die_with_parent()


def main(arguments: Sequence[str], serve: Callable[[list[str]], None] | None = None) -> None:
    """Runs the engine until its last user is gone.

    Args:
        arguments: `STATE_DIR -- flags`.
        serve: Gets the flags and serves until SIGTERM; vLLM's server where None.
    """
    from engine.keeper import Keeper

    state_dir, separator, *flags = arguments
    if separator != "--":
        raise SystemExit("usage: python -m engine.launch STATE_DIR -- FLAGS")
    with Keeper(Path(state_dir)):
        (serve or _serve_vllm)(flags)


def _serve_vllm(flags: list[str]) -> None:
    sys.argv = ["vllm", *flags]
    from vllm.entrypoints.launchers.api_server.entry import main as serve

    untyped: Callable[[], None] = serve
    untyped()


if __name__ == "__main__":
    main(sys.argv[1:])
