"""Decides what is written down about a started engine, so that the next command finds it: `engine.json`, its lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

_MAX_LOG_BYTES = 400_000


@dataclass(frozen=True)
class Record:
    """A started engine, ready or not. `instance` and `pid` are the keeper's; `started` is a Unix time.

    `token` is the API key that it was started with.
    """

    url: str
    model: str
    folder: str
    pid: int
    instance: str
    started: float
    asked_for: str
    token: str | None = field(default=None, repr=False)


def log_path(state_dir: Path) -> Path:
    return state_dir / "engine.log"


def read_log(log_file: Path) -> str:
    """The end of the log, enough for all that a start writes; empty where there is none."""
    try:
        with log_file.open("rb") as file:
            file.seek(max(0, log_file.stat().st_size - _MAX_LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def read_record(state_dir: Path) -> Record | None:
    """The record, or None where there is none that can be understood."""
    try:
        return Record(**json.loads((state_dir / "engine.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_record(state_dir: Path, record: Record) -> None:
    """Replaces the record in one step; only its owner may read it."""
    path = state_dir / "engine.json"
    draft = path.with_name(f"engine.json.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(record), file)
    draft.replace(path)


def remove_record(state_dir: Path) -> None:
    (state_dir / "engine.json").unlink(missing_ok=True)


@contextlib.contextmanager
def start_lock(state_dir: Path) -> Iterator[None]:
    """One process at a time finds or starts the engine of this folder; the kernel unlocks if that process dies."""
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "engine.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
