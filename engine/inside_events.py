"""Decides whether a vLLM server publishes KV events, and where: on sockets of this machine that only its user can open.

So `VLLM_PLUGINS=readonce` alone is enough to know what the cache holds. What the flags say about events is left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SWITCH = "READONCE_PLUGIN_EVENTS"
# Batches kept for a reader that missed some. They hold token ids, up to 40 kB a batch of 8192.
_BUFFER_STEPS = 2000
_MAX_SOCKET_PATH = 100  # the kernel takes 107 bytes, and a rank's suffix follows
_FOLDER = "readonce-kv-"
# vLLM gives the ranks behind the first one an address each only where this word occurs in it.
_LIVE, _REPLAY = "inproc-live", "inproc-replay"
_log = logging.getLogger("vllm.readonce")


def turn_on_events(variables: Mapping[str, str]) -> bool:
    """Makes the servers that this process configures publish KV events; harmless if it runs twice.

    Args:
        variables: `os.environ`. Nothing is done unless VLLM_PLUGINS names readonce: without it vLLM loads every
            general plugin, also in programs that have nothing to do with us.

    Returns:
        Whether it is turned on here.
    """
    if variables.get(SWITCH) == "0" or "readonce" not in variables.get("VLLM_PLUGINS", "").split(","):
        return False
    arguments = sys.modules.get("vllm.engine.arg_utils")
    if arguments is None:
        return False  # a core or a worker: it is handed its configuration
    try:
        made = arguments.EngineArgs.create_engine_config
    except AttributeError:
        _log.warning("KV events are off: this vLLM makes its configuration in a way not known here.")
        return False
    if not hasattr(made, "readonce"):
        arguments.EngineArgs.create_engine_config = _with_events(made)
    return True


def publish_now(scheduler: Any) -> None:
    """In the core: tells of blocks that were dropped between two steps now, not with the next step."""
    if events := scheduler.kv_cache_manager.take_events():
        from vllm.distributed.kv_events import KVEventBatch

        scheduler.kv_event_publisher.publish(KVEventBatch(ts=time.time(), events=events))


def _with_events(made: Any) -> Any:
    @functools.wraps(made)
    def create_engine_config(self: Any, *positional: Any, **named: Any) -> Any:
        try:
            _configure(self)
        except Exception as problem:  # a server without our part is better than none
            _log.warning("KV events are off: %s", problem)
        return made(self, *positional, **named)

    create_engine_config.readonce = True  # type: ignore[attr-defined]
    return create_engine_config


def _configure(arguments: Any) -> None:
    if arguments.kv_events_config is not None or arguments.enable_prefix_caching is False:
        return
    local = arguments.data_parallel_size_local
    if (
        arguments.data_parallel_external_lb
        or arguments.data_parallel_hybrid_lb
        or arguments.data_parallel_backend != "mp"
        or local not in (None, arguments.data_parallel_size)
    ):
        _log.warning("KV events are off: some data-parallel ranks run elsewhere; name their endpoints with the flags.")
        return
    from vllm.config.kv_events import KVEventsConfig

    folder = _make_folder()
    arguments.kv_events_config = KVEventsConfig(
        enable_kv_cache_events=True,
        publisher="zmq",
        endpoint=f"ipc://{folder / _LIVE}",
        replay_endpoint=f"ipc://{folder / _REPLAY}",
        buffer_steps=_BUFFER_STEPS,
    )
    _seed_hashes(arguments.prefix_caching_hash_algo)


def _seed_hashes(algorithm: str) -> None:
    """Where the core would draw the root of its hashes at random, it is drawn here: nobody else could compute them.

    It stays a secret of this server, which its children inherit. Python seeds its own hashes with it too: with a random
    number, which is what it takes where nothing is set.
    """
    from engine.hashing import default_seed

    if "PYTHONHASHSEED" not in os.environ and default_seed(algorithm) is None:
        os.environ["PYTHONHASHSEED"] = str(int.from_bytes(os.urandom(4), "big"))


def _make_folder() -> Path:
    """A new folder, 0700, that goes with this process; those of processes that were killed go now."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    if not os.access(base, os.W_OK) or len(os.fsencode(base)) > _MAX_SOCKET_PATH // 2:
        base = Path(tempfile.gettempdir())
    for old in base.glob(f"{_FOLDER}*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if old.stat().st_uid == os.getuid() and not _is_alive(int(old.name.removeprefix(_FOLDER).split("-")[0])):
                shutil.rmtree(old)
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=base))
    if len(os.fsencode(folder / _REPLAY)) > _MAX_SOCKET_PATH:
        folder.rmdir()
        raise OSError(f"the path of {folder} is too long for a socket; set TMPDIR to a shorter one.")
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child, which would inherit this
        shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
