"""Decides what of a question OpenTelemetry gets to see: one trace from the client through our routes to vLLM's core.

Off by default, and then nothing of OpenTelemetry is imported. Spans carry counts and ids, never words or token ids.
They are started and ended by hand: an answer is streamed by generators, which share no current span with their caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from engine.base import EngineError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp")
_NAME = "readonce"
_EXPORT_TIMEOUT_S = 2

Figure = str | int | float | bool


class Span(Protocol):
    """Something that takes time. End it exactly once."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What the next hop continues from (`traceparent`); empty where nothing is traced."""
        ...

    def note(self, **figures: Figure | None) -> None:
        """Adds attributes; None is left out."""
        ...

    def end(self, error: BaseException | None = None) -> None: ...


class Traces(Protocol):
    """Where spans begin."""

    def start(self, name: str, headers: Mapping[str, str] | None = None, **figures: Figure | None) -> Span:
        """A span that begins now, below the one that `headers` come from."""
        ...

    def close(self) -> None:
        """Sends what is left. Blocking, some seconds at most."""
        ...


def require_packages() -> None:
    """Raises EngineError (`traces_unavailable`) where OpenTelemetry is not installed."""
    for package in _PACKAGES:
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:  # its parent is missing
            found = None
        if found is None:
            raise EngineError(
                "traces_unavailable",
                f"Traces are switched on (otlp_endpoint) and the package of {package} is not installed; run "
                "`pip install opentelemetry-sdk opentelemetry-exporter-otlp`, or take the setting away.",
            )


@contextlib.contextmanager
def ending(span: Span) -> Iterator[Span]:
    """Ends the span with the block, whatever ends that. A stream that was stopped is no error."""
    try:
        yield span
    except (GeneratorExit, asyncio.CancelledError):
        span.note(stopped=True)
        span.end()
        raise
    except BaseException as error:
        span.end(error)
        raise
    span.end()


def off() -> Traces:
    return _Off()


def to(endpoint: str | None, exporter: SpanExporter | None = None) -> Traces:
    """Spans of this process go to an OTLP collector.

    Args:
        endpoint: Its address; None: nothing is traced. OTEL_EXPORTER_OTLP_TRACES_PROTOCOL chooses `grpc` (default) or
            `http/protobuf`, as it does for vLLM.
        exporter: Takes the place of the one that `endpoint` asks for.

    Raises:
        EngineError: `traces_unavailable`.
    """
    if endpoint is None and exporter is None:
        return off()
    require_packages()
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # A provider of our own: the process may have one already, which is none of our business.
    provider = TracerProvider(resource=Resource.create({"service.name": _NAME}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter or _exporter(str(endpoint))))
    return _On(provider.get_tracer(_NAME), provider)


def of_server(engine_client: Any) -> Traces:
    """Inside vLLM's server: on where vLLM itself traces (`--otlp-traces-endpoint`), through the provider it has set."""
    observability = getattr(engine_client.vllm_config, "observability_config", None)
    if getattr(observability, "otlp_traces_endpoint", None) is None:
        return off()
    from opentelemetry import trace

    return _On(trace.get_tracer(_NAME), None)


def _exporter(endpoint: str) -> SpanExporter:
    if os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter(endpoint=endpoint, insecure=True, timeout=_EXPORT_TIMEOUT_S)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

    return HttpExporter(endpoint=endpoint, timeout=_EXPORT_TIMEOUT_S)


class _Off:
    """Nothing is traced; its own span."""

    headers: Mapping[str, str] = {}

    def start(self, name: str, headers: Mapping[str, str] | None = None, **figures: Figure | None) -> Span:
        return self

    def note(self, **figures: Figure | None) -> None: ...

    def end(self, error: BaseException | None = None) -> None: ...

    def close(self) -> None: ...


class _On:
    def __init__(self, tracer: Any, provider: Any) -> None:
        self._tracer = tracer
        self._provider = provider

    def start(self, name: str, headers: Mapping[str, str] | None = None, **figures: Figure | None) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        above = TraceContextTextMapPropagator().extract(headers or {}, context=Context())
        span = _Span(self._tracer.start_span(f"{_NAME}.{name}", context=above))
        span.note(**figures)
        return span

    def close(self) -> None:
        if self._provider is not None:
            self._provider.shutdown()


class _Span:
    def __init__(self, span: Any) -> None:
        from opentelemetry.trace import set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._span = span
        self.headers: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(self.headers, context=set_span_in_context(span))

    def note(self, **figures: Figure | None) -> None:
        for name, figure in figures.items():
            if figure is not None:
                self._span.set_attribute(f"{_NAME}.{name}", figure)

    def end(self, error: BaseException | None = None) -> None:
        if error is not None:
            from opentelemetry.trace import Status, StatusCode

            # The kind alone: a message may quote what was asked.
            self._span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        self._span.end()
