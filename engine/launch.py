"""Decides that nothing of an engine outlives it: the one process that is started, and what ties its children to it.

    python -m engine.launch STATE_DIR -- vLLM's flags

It is vLLM's server, with a thread that counts who uses it (`keeper`). vLLM starts an engine core, and that a worker,
and both go on for ever if the server is killed; so each of them asks the kernel to be killed when its parent dies.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# Each process leaves its id to its children, so that a child can see whether its parent is still there.
_PARENT = "ENGINE_LAUNCH_PARENT_PID"


def die_with_parent() -> None:
    """Has this process killed as soon as its parent is gone; does nothing in the server itself.

    Runs in vLLM's children: as the `readonce` plugin (`vllm.general_plugins`), and already when a spawned child imports
    this module as its main module, before vLLM is loaded there. Harmless if it runs twice.
    """
    parent = os.environ.get(_PARENT)
    if parent is None or parent == str(os.getpid()) or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent != str(os.getppid()):  # it died before we asked
        os.kill(os.getpid(), signal.SIGKILL)
    os.environ[_PARENT] = str(os.getpid())  # for the children of this one


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
    os.environ[_PARENT] = str(os.getpid())
    with Keeper(Path(state_dir)):
        (serve or _serve_vllm)(flags)


def _serve_vllm(flags: list[str]) -> None:
    sys.argv = ["vllm", *flags]
    try:
        from vllm.entrypoints.launchers.api_server.entry import main as serve
    except ImportError:  # vLLM before 0.28: the module is its own entry
        runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
        return
    untyped: Callable[[], None] = serve
    untyped()


if __name__ == "__main__":
    main(sys.argv[1:])
