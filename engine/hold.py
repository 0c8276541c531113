"""Decides what it means to hold an engine: it stays while the lease is open, and whether it is still there is known."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType

from engine.process import runs_for, wait_for_end
from engine.record import read_record
from engine.server import RunningEngine
from engine.users import Kind, users_of
from engine.wire import Line


class Lease:
    """A running engine, kept alive until the lease is closed or its process dies.

    As a context manager: a block that ends well leaves the engine running for `keep_alive_s`, an exception does not.

    Attributes:
        engine: What answers.
    """

    def __init__(
        self,
        engine: RunningEngine,
        line: Line | None = None,
        keep_alive_s: float = 0.0,
        state_dir: Path | None = None,
    ) -> None:
        self.engine = engine
        self._line = line
        self._keep_alive_s = keep_alive_s
        self._state_dir = state_dir

    def introduce(self, kind: Kind) -> None:
        """Tells whose lease it is."""
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.ask(f"as {kind}")

    def has_ended(self) -> bool:
        """Whether the engine that was started here has ended or is about to; never known of one elsewhere. Quick."""
        if self._line is None or self._state_dir is None:
            return False
        record = read_record(self._state_dir)  # an engine that begins to end takes it away first
        return record is None or record.instance != self.engine.instance or not self._line.is_alive()

    def pages(self) -> int:
        """How many pages use the engine; 0 where that can't be told."""
        with contextlib.suppress(OSError):
            return users_of(self._line).pages if self._line is not None else 0
        return 0

    def close(self, linger_s: float | None = None) -> None:
        """Gives the lease back; after the last one the engine ends, at once or after `linger_s` idle seconds.

        Of an engine that is ending already the end is waited for: the next one wants its memory and its port.
        """
        if self._line is None:
            return
        ends = self.has_ended()
        line, self._line = self._line, None
        if linger_s:
            with contextlib.suppress(OSError):
                line.ask(f"linger {linger_s}")
        line.close()
        pid, folder = self.engine.pid, self._state_dir
        if ends and pid is not None and folder is not None and runs_for(pid, folder):
            wait_for_end(pid)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(linger_s=self._keep_alive_s if kind is None else None)
