"""Decides how several front ends of one engine show their figures together: each writes its own into shared files.

The files are Prometheus's own; vLLM sets PROMETHEUS_MULTIPROC_DIR where it starts several. Whichever of them is asked
for /metrics adds the files up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from engine.series import ALL, Series
from engine.view import CacheView

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

WRITTEN_EVERY_S = 2.0

_log = logging.getLogger(__name__)


class Files:
    """Writes the view where the front end that is asked finds it, together with the other front ends' figures."""

    def __init__(self, view: Callable[[], CacheView], registry: CollectorRegistry) -> None:
        self._view = view
        self._registry = registry
        self._metrics = [_in_files(series, registry) for series in ALL]
        self._counted: dict[tuple[str, str], float] = {}
        self._task = asyncio.get_running_loop().create_task(self._keep_writing())

    async def _keep_writing(self) -> None:
        while True:
            try:
                self._write()
            except Exception as error:  # /metrics goes on without us
                _log.warning("The cache's figures are missing from /metrics: %r", error)
                return
            await asyncio.sleep(WRITTEN_EVERY_S)

    def _write(self) -> None:
        view = self._view()
        for series, metric in zip(ALL, self._metrics, strict=True):
            for label, figure in series.samples(view):
                if figure is None:
                    continue
                one = metric.labels(label) if series.label else metric
                if series.kind == "counter" and series.of_process:
                    key = series.name, label
                    one.inc(max(0.0, figure - self._counted.get(key, 0.0)))
                    self._counted[key] = figure
                else:
                    one.set(figure)

    def close(self) -> None:
        self._task.cancel()
        for metric in self._metrics:
            with contextlib.suppress(KeyError):
                self._registry.unregister(metric)


def _in_files(series: Series, registry: CollectorRegistry) -> Any:
    from prometheus_client import Counter, Gauge

    labels = [series.label] if series.label else []
    if series.kind == "counter" and series.of_process:
        return Counter(series.name, series.words, labels, registry=registry)
    # All front ends see the same engine: what one of them said last holds, and nothing is added up.
    mode: Literal["livesum", "mostrecent"] = "livesum" if series.of_process else "mostrecent"
    return Gauge(series.name, series.words, labels, registry=registry, multiprocess_mode=mode)
