"""Decides whether a state folder has an engine: one that answers, one that is there and silent, or none."""

from __future__ import annotations

import time
from pathlib import Path

from engine.base import EngineError
from engine.process import runs_for
from engine.record import Record, read_record
from engine.wire import Line

# A dying engine is gone within a moment; one that is stopped (SIGSTOP) or hangs stays.
_HANGS_AFTER_S = 5.0
_POLL_S = 0.2


def attach(state_dir: Path) -> tuple[Line, Record] | None:
    """A connection to the engine's keeper, no lease yet; None where no engine runs.

    A stale record is passed over: the next start replaces it, under the lock.
    """
    record = read_record(state_dir)
    if record is None:
        return None
    try:
        line = Line(state_dir)
    except (OSError, ValueError, LookupError):
        return None
    if line.instance != record.instance:
        line.close()
        return None
    return line, record


def mute(state_dir: Path) -> Record | None:
    """The record of an engine that is there and does not answer."""
    record = read_record(state_dir)
    return record if record is not None and runs_for(record.pid, state_dir) else None


def refuse_mute(state_dir: Path) -> None:
    """Two engines would not fit into the memory; an engine that is about to be gone is waited for."""
    until = time.monotonic() + _HANGS_AFTER_S
    while (silent := mute(state_dir)) is not None:
        if time.monotonic() > until:
            raise EngineError(
                "engine_hangs",
                f"The engine (process {silent.pid}) does not answer; end it with `readonce engine --stop` first.",
            )
        time.sleep(_POLL_S)
