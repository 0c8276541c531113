"""Decides how our figures get into the /metrics that vLLM's server answers, and times each question's first token.

With one front end they are read from the plugin at the moment of asking. With several, Prometheus's own files carry
them (`metric_files`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import statistics
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.metric_files import Files
from engine.series import ALL, Series
from engine.view import CacheView, FirstTokens

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

FIRST_TOKEN_NAME = "readonce_first_token_seconds"
# Finer where the targets lie (15 and 25 ms warm on a large GPU, 500 ms at most), coarse where a document is read.
BUCKETS_S = (0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_KEPT_OF_EACH_KIND = 256
_LOOP_ANSWERS_WITHIN_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FirstToken:
    """Where one question's time went until its first token, in seconds.

    Attributes:
        total_s: From its arrival in the server.
        admission_s: At our door.
        queue_s, gpu_s: In the engine core's queue, and computing; None where the engine does not tell.
        warm: Its prefix was resident; nothing of it had to be read.
    """

    total_s: float
    admission_s: float
    queue_s: float | None
    gpu_s: float | None
    warm: bool

    @property
    def host_s(self) -> float | None:
        """What is left: parsing, sending, waking up. None where the engine does not tell the rest."""
        if self.queue_s is None or self.gpu_s is None:
            return None
        return max(0.0, self.total_s - self.admission_s - self.queue_s - self.gpu_s)

    @property
    def parts(self) -> dict[str, float | None]:
        """By the value of the label `part`."""
        return {
            "admission": self.admission_s,
            "queue": self.queue_s,
            "host": self.host_s,
            "gpu": self.gpu_s,
            "all": self.total_s,
        }


class Metrics:
    """Our figures in one server process. Make it in the server's event loop, `close` it there.

    Args:
        view: Gives the cache's state now; called in that event loop only.
        registry: Prometheus's; None: the one that vLLM's /metrics shows.
    """

    def __init__(self, view: Callable[[], CacheView], registry: CollectorRegistry | None = None) -> None:
        from prometheus_client import REGISTRY, Histogram

        self._registry = registry or REGISTRY
        self._histogram = Histogram(
            FIRST_TOKEN_NAME,
            "Seconds until the first token, by where they went.",
            ["part", "warm"],
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._last = {warm: deque[float](maxlen=_KEPT_OF_EACH_KIND) for warm in (True, False)}
        self._questions = 0
        self._files: Files | None = None
        self._collector: _Collector | None = None
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            self._files = Files(view, self._registry)
        else:
            self._collector = _Collector(view)
            self._registry.register(self._collector)

    def observe(self, first: FirstToken) -> None:
        """Counts a question that got its first token."""
        self._questions += 1
        self._last[first.warm].append(first.total_s)
        for part, seconds in first.parts.items():
            if seconds is not None:
                self._histogram.labels(part, "true" if first.warm else "false").observe(seconds)

    @property
    def first_tokens(self) -> FirstTokens:
        """For the view."""
        return FirstTokens(self._questions, _median_ms(self._last[True]), _median_ms(self._last[False]))

    def close(self) -> None:
        """Takes our figures out of /metrics."""
        self._registry.unregister(self._histogram)
        if self._collector is not None:
            self._registry.unregister(self._collector)
        if self._files is not None:
            self._files.close()


def _median_ms(seconds: deque[float]) -> float | None:
    return statistics.median(seconds) * 1000 if seconds else None


class _Collector:
    """Reads the view when Prometheus asks. What goes wrong here never takes vLLM's own figures away."""

    def __init__(self, view: Callable[[], CacheView]) -> None:
        self._view = view
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._complained = False

    def describe(self) -> Iterator[Metric]:
        """The names alone, so that registering does not ask for the view yet."""
        for series in ALL:
            yield _family(series, None)

    def collect(self) -> Iterator[Metric]:
        try:
            view = self._view_now()
        except Exception as error:
            if not self._complained:
                self._complained = True
                _log.warning("The cache's figures are missing from /metrics: %r", error)
            return
        for series in ALL:
            yield _family(series, view)

    def _view_now(self) -> CacheView:
        if threading.get_ident() == self._thread:
            return self._view()
        # vLLM answers /metrics in a thread: the view is taken where nothing changes under it.
        answer: Future[CacheView] = Future()

        def take() -> None:
            try:
                answer.set_result(self._view())
            except Exception as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(take)
        return answer.result(_LOOP_ANSWERS_WITHIN_S)


def _family(series: Series, view: CacheView | None) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if series.kind == "counter" else GaugeMetricFamily
    family = kind(series.name, series.words, labels=[series.label] if series.label else [])
    for label, figure in series.samples(view) if view is not None else ():
        if figure is not None:
            family.add_metric([label] if series.label else [], figure)
    return family
