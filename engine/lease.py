"""Decides how a command gets its engine: finds the one that runs, or starts it, and keeps it alive while it is used."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.attach import attach, mute, refuse_mute
from engine.base import EngineError
from engine.failure import explain, stage, start_timeout
from engine.hold import Lease
from engine.probe import is_ready, probe, probe_elsewhere
from engine.process import kill_group, refuse_start, start, wait_for_end
from engine.record import Record, log_path, read_log, remove_record, start_lock
from engine.server import EngineSettings, RunningEngine
from engine.users import Users, users_of
from engine.wire import Line

Report = Callable[[str], None]

_PROGRAM = (sys.executable, "-m", "engine.launch")
_POLL_S = 0.2


@dataclass(frozen=True)
class EngineStatus:
    """The engine of a state folder.

    Attributes:
        engine: None while it starts.
        stage: What it is at while it starts, in words; empty once it is ready.
        num_leases: Who uses it now; None for an engine elsewhere.
        refusal: Why an engine elsewhere can't be used though it answers: its token, its model. None where it can.
    """

    engine: RunningEngine | None
    stage: str
    model: str
    pid: int | None
    num_leases: int | None
    log_file: Path | None
    refusal: EngineError | None = None


def connect(settings: EngineSettings, report: Report | None = None, *, program: Sequence[str] = _PROGRAM) -> Lease:
    """Takes a lease on the engine that runs, or starts one and waits until it is ready.

    A running engine fits if its model is the one asked for; other settings take effect at the next start.

    Args:
        report: Gets a few words about once a second while the engine starts.
        program: What is started; takes the state folder, `--` and vLLM's flags.

    Raises:
        EngineError: engine_unreachable, engine_hangs, other_model, port_taken, does_not_fit, out_of_memory,
            weights_missing, start_timeout, engine_died, vllm_not_installed, max_model_len_too_large, needs_a_gpu,
            cascade_missing, profile_unknown, profile_for_another_device, or what fetching a model raises.
    """
    if settings.url is not None:
        return Lease(probe_elsewhere(settings))
    with start_lock(settings.state_dir):
        joined = _join(settings, makes_room=False)
    if joined is None:
        # May fetch the weights: not under the lock. And before another engine makes room: it would have gone in vain.
        name, folder = _resolve(settings, report)
        refuse_start(settings, name, folder)
        with start_lock(settings.state_dir):
            joined = _join(settings, makes_room=True) or start(settings, name, folder, program)
    line, record = joined
    try:
        engine = _wait_until_ready(settings, line, record, report or (lambda words: None))
    except BaseException:
        _leave(line, record)
        raise
    return Lease(engine, line, settings.keep_alive_s, settings.state_dir)


def find(settings: EngineSettings) -> RunningEngine | None:
    """The engine if it is ready, None otherwise. Starts nothing, keeps nothing alive.

    Raises:
        EngineError: `token_refused`, `other_model`, `engine_failed` of an engine elsewhere that can't be used.
    """
    found = status(settings)
    if found is not None and found.refusal is not None:
        raise found.refusal
    return found.engine if found else None


def status(settings: EngineSettings) -> EngineStatus | None:
    """What runs, None where nothing does. Starts nothing, keeps nothing alive."""
    if settings.url is not None:
        try:
            engine = probe_elsewhere(settings)
        except EngineError as error:
            if error.code == "engine_unreachable":
                return None
            return EngineStatus(None, "", settings.model, None, None, None, error)
        return EngineStatus(engine, "", engine.model, None, None, None)
    attached = attach(settings.state_dir)
    log_file = log_path(settings.state_dir)
    if attached is not None:
        line, record = attached
        with line, contextlib.suppress(OSError, EngineError):  # it may end, or hang, while it is asked
            ready = _probe(record) if is_ready(record.url) else None
            words = "" if ready else stage(read_log(log_file))
            return EngineStatus(ready, words, record.model, record.pid, int(line.ask("leases")), log_file)
    silent = mute(settings.state_dir)
    if silent is None:
        return None
    return EngineStatus(None, "it does not answer", silent.model, silent.pid, None, log_file)


def stop(settings: EngineSettings, *, force: bool = True) -> bool:
    """Ends the engine and waits until it is gone; False where none runs here.

    Args:
        force: Whoever uses it: answers under way break off.

    Raises:
        EngineError: `engine_in_use`.
    """
    if settings.url is not None:
        return False
    attached = attach(settings.state_dir)
    if attached is not None:
        if not force:
            _refuse_used(*attached)
        _end(*attached)
        return True
    silent = mute(settings.state_dir)
    if silent is None:
        return False
    kill_group(silent.pid)
    wait_for_end(silent.pid)
    remove_record(settings.state_dir)
    return True


def _refuse_used(line: Line, record: Record) -> None:
    users = Users()
    with contextlib.suppress(OSError):  # it ends just now
        users = users_of(line)
    if not users.words:
        return
    line.close()
    after = " and the page starts it again" if users.pages == 1 else " and the pages start it again"
    raise EngineError(
        "engine_in_use",
        f"The engine (process {record.pid}) is used by {users.words}; `readonce engine --stop --force` ends it all "
        f"the same: answers under way break off{after if users.pages else ''}.",
    )


def _join(settings: EngineSettings, *, makes_room: bool) -> tuple[Line, Record] | None:
    """A lease on the engine that runs or starts now; None where there is none that fits.

    Args:
        makes_room: One with another model that nobody uses is ended.
    """
    attached = attach(settings.state_dir)
    if attached is None:
        refuse_mute(settings.state_dir)
        return None
    line, record = attached
    try:
        if _fits(settings, record):
            line.ask("lease")
            return line, record
        num_leases = int(line.ask("leases"))
    except OSError:  # it ended just now
        line.close()
        wait_for_end(record.pid)
        return None
    if num_leases:
        line.close()
        raise EngineError(
            "other_model",
            f"An engine with the model {record.model} is in use (process {record.pid}); end what uses it, "
            f"or ask for that model.",
        )
    if makes_room:
        _end(line, record)
    else:
        line.close()
    return None


def _wait_until_ready(settings: EngineSettings, line: Line, record: Record, report: Report) -> RunningEngine:
    log_file = log_path(settings.state_dir)
    began = time.monotonic()
    said = -1
    while True:
        if not line.is_alive():
            wait_for_end(record.pid)
            port = int(record.url.rpartition(":")[2])
            raise explain(read_log(log_file), log_file=log_file, folder=Path(record.folder), port=port)
        if is_ready(record.url):
            return _probe(record)
        seconds = time.monotonic() - began
        if seconds > settings.start_timeout_s:
            raise start_timeout(settings.start_timeout_s, read_log(log_file), log_file)
        if int(seconds) > said:
            said = int(seconds)
            report(f"{stage(read_log(log_file))} ... {said} s")
        time.sleep(_POLL_S)


def _fits(settings: EngineSettings, record: Record) -> bool:
    if settings.model in (record.model, record.asked_for):
        return True
    return Path(settings.model).is_dir() and str(Path(settings.model).resolve()) == record.folder


def _resolve(settings: EngineSettings, report: Report | None) -> tuple[str, Path]:
    """The model's name for requests, and its folder."""
    from engine.models import resolve

    model = resolve(settings.model, settings.cache_dir, offline=settings.offline, report=report)
    return model.name, model.folder


def _probe(record: Record) -> RunningEngine:
    return probe(
        record.url,
        instance=record.instance,
        pid=record.pid,
        folder=Path(record.folder),
        started=record.started,
        token=record.token,
    )


def _leave(line: Line, record: Record) -> None:
    """Gives up a lease; if it was the last, the keeper ends the engine, half started or not, and we wait for that."""
    is_last = True
    with line, contextlib.suppress(OSError):
        is_last = int(line.ask("leases")) == 1
    if is_last:
        wait_for_end(record.pid, kill=False)


def _end(line: Line, record: Record) -> None:
    with line, contextlib.suppress(OSError):
        line.ask("stop")
    wait_for_end(record.pid)
