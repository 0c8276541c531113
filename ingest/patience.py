"""Decides how long a part of a reader's work may take that the document can do without."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_AGAIN_SECONDS = 0.2


class OutOfTime(BaseException):
    """No `Exception`: the library whose time is up would swallow it and go on."""


@contextmanager
def within(cpu_seconds: float) -> Iterator[None]:
    """Raises `OutOfTime` in the block once this process has computed for so long in it.

    Of processor time, so that a busy machine costs nothing. Outside a program's main thread, where no signal arrives,
    there is no limit but those of the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    running = True

    def stop(*_: Any) -> None:
        if running:
            raise OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    # Again and again: one may be lost in a destructor, where Python ignores what is raised.
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds, _AGAIN_SECONDS)
    try:
        try:
            yield
        finally:
            running = False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
