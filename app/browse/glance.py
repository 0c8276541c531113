"""Decides how often the engine is asked what it holds: once a second for everybody, however many pages look."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.base import EngineError

if TYPE_CHECKING:
    from app.assistant import Assistant
    from engine.view import CacheView

FRESH_S = 1.0
# An engine that did not answer is left alone for longer: each try may take seconds.
SILENT_S = 10.0


class Glance:
    """The engine's last account of its cache. Safe for several threads; blocking."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._view: CacheView | None = None
        self._lock = threading.Lock()

    def view(self, assistant: Assistant) -> CacheView | None:
        """None where no engine is ready, or it does not tell."""
        with self._lock:
            if self._clock() >= self._until:
                fresh_s = FRESH_S
                try:
                    self._view = assistant.cache()
                except EngineError:
                    self._view, fresh_s = None, SILENT_S
                self._until = self._clock() + fresh_s
            return self._view

    def again(self) -> None:
        """What was known is old: something has just been changed."""
        with self._lock:
            self._until = float("-inf")
