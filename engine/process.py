"""Decides how the engine's process is started and ended: one process, its own session, its log in the state folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from engine.failure import explain, port_taken
from engine.fit import refuse_what_does_not_fit
from engine.profiles import choose
from engine.record import Record, log_path, read_log, remove_record, write_record
from engine.server import HOST, EngineSettings, command_line, environment, resolve_device
from engine.wire import Line, socket_path

_SOCKET_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
# Children are reaped when they end; a reference keeps Python from complaining about those that outlive a command.
_children: list[subprocess.Popen[bytes]] = []


def refuse_start(settings: EngineSettings, name: str, folder: Path) -> None:
    """Raises EngineError for what can be said before anything is started, or ended to make room."""
    device = resolve_device(settings.device)
    refuse_what_does_not_fit(settings, choose(settings.profile, device), folder)
    command_line(settings, folder, settings.port or 0, name=name, device=device)


def start(settings: EngineSettings, name: str, folder: Path, program: Sequence[str]) -> tuple[Line, Record]:
    """Starts the engine's process and takes the first lease; the caller holds the lock, and asked `refuse_start`."""
    device = resolve_device(settings.device)
    port = choose_port(settings.port)
    flags = command_line(settings, folder, port, name=name, device=device)
    log_file = log_path(settings.state_dir)
    if log_file.exists():
        log_file.replace(log_file.with_suffix(".log.1"))
    remove_record(settings.state_dir)
    socket_path(settings.state_dir).unlink(missing_ok=True)
    token = secrets.token_urlsafe(32)
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*program, os.path.abspath(settings.state_dir), "--", *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(settings, device, os.environ, token),
            start_new_session=True,  # Ctrl-C is ours to handle; its children share its process group
        )
    _children[:] = [child for child in _children if child.poll() is None] + [process]
    try:
        line = _first_lease(settings, process, log_file, folder, port)
        record = Record(
            url=f"http://{HOST}:{port}",
            model=name,
            folder=str(folder.resolve()),
            pid=process.pid,
            instance=line.instance,
            started=time.time(),
            asked_for=settings.model,
            token=token,
        )
        write_record(settings.state_dir, record)
    except BaseException:
        kill_group(process.pid)
        process.wait()
        raise
    return line, record


def _first_lease(
    settings: EngineSettings, process: subprocess.Popen[bytes], log_file: Path, folder: Path, port: int
) -> Line:
    """A lease as soon as the keeper listens. A process that dies before or while it grants one is explained."""
    until = time.monotonic() + _SOCKET_TIMEOUT_S
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            line = opened.enter_context(Line(settings.state_dir))
            line.ask("lease")
            opened.pop_all()
            return line
        time.sleep(0.02)
    raise explain(read_log(log_file), log_file=log_file, folder=folder, port=port)


def choose_port(port: int | None) -> int:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port or 0))
        except OSError as error:
            raise port_taken(port or 0) from error
        return int(listener.getsockname()[1])


def wait_for_end(pid: int, *, kill: bool = True) -> None:
    """Waits until the engine's process is gone; where it takes too long, kills its group or waits no longer."""
    until = time.monotonic() + _STOP_TIMEOUT_S
    while _is_running(pid):
        if time.monotonic() > until:
            if not kill:
                return
            kill_group(pid)
            until += _STOP_TIMEOUT_S
        time.sleep(0.05)


def runs_for(pid: int, state_dir: Path) -> bool:
    """Whether the process `pid` is an engine of this folder, and no other program that got its number since."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return _is_running(pid) and os.fsencode(os.path.abspath(state_dir)) in words


def _is_running(pid: int) -> bool:
    for child in _children:
        if child.pid == pid:
            return child.poll() is None
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
