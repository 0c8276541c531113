"""Decides how work goes on behind other work: in one thread, started again whenever there is more, ended with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Behind:
    """Work in a thread that is looked for again at each `more`, until the block that opened it is left.

    Leaving the block waits for the work, and raises what went wrong in it; an exception in the block stops it instead.

    Args:
        work: Does all that there is to do; takes an event that tells it to stop.
    """

    def __init__(self, work: Callable[[threading.Event], object]) -> None:
        self._work = work
        self._stop, self._wake, self._last = threading.Event(), threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def more(self) -> None:
        """There is something to do; returns at once."""
        self._wake.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._last.set()
        if kind is not None:
            self._stop.set()
        self._wake.set()
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._wake.wait()
                self._wake.clear()
                last = self._last.is_set()  # looked at first: what came before it is then done
                if not self._stop.is_set():
                    self._work(self._stop)
                if last:
                    return
        except BaseException as error:  # told to whoever leaves the block
            self._error = error
