"""Traces: off by default at no cost, one trace over all hops when on, and never a word of what was asked."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from plugin_parts import PacedBridge, serve

from engine import traces
from engine.base import EngineError
from engine.server import EngineSettings, command_line

pytest.importorskip("opentelemetry.sdk")


@pytest.fixture
def seen() -> Any:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    return InMemorySpanExporter()


def settings(tmp_path: Path, **changes: Any) -> EngineSettings:
    return EngineSettings(model="m", state_dir=tmp_path, cache_dir=tmp_path, device="cpu", **changes)


def test_off_imports_nothing_and_sends_no_header() -> None:
    """No package of OpenTelemetry is loaded, and a question carries nothing more than before."""
    code = (
        "import sys; from engine import traces\n"
        "span = traces.to(None).start('question', {'traceparent': 'x'}, tokens=3)\n"
        "span.note(more=1); span.end(ValueError())\n"
        "print(dict(span.headers), [name for name in sys.modules if 'opentelemetry' in name])"
    )
    root = str(Path(__file__).parents[2])
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    assert out == "{} []\n"


def test_a_hop_continues_the_trace_of_the_one_before(seen: Any) -> None:
    """Client, routes, engine: one trace, each span below the one whose headers it got, attributes by our name."""
    seen_by_server = type(seen)()
    client, server = traces.to("x", seen), traces.to("x", seen_by_server)
    question = client.start("question", prefix="a1b2", tail_tokens=64)
    admission = server.start("admission", question.headers)
    admission.note(waited_for=None, cached_tokens=2_000)
    admission.end()
    question.end()
    client.close()
    server.close()
    (outer,), (inner,) = seen.get_finished_spans(), seen_by_server.get_finished_spans()
    assert (outer.name, inner.name) == ("readonce.question", "readonce.admission")
    assert inner.parent.span_id == outer.context.span_id
    assert inner.context.trace_id == outer.context.trace_id
    assert dict(outer.attributes) == {"readonce.prefix": "a1b2", "readonce.tail_tokens": 64}
    assert dict(inner.attributes) == {"readonce.cached_tokens": 2_000}
    assert outer.parent is None


def test_two_questions_are_two_traces_whatever_span_is_current(seen: Any) -> None:
    """Nothing leaks from one stream into the other, nor from a program that traces itself."""
    from opentelemetry import trace

    made = traces.to("x", seen)
    first = made.start("question")
    with trace.use_span(first._span):
        second = made.start("question")
    assert first.headers["traceparent"].split("-")[1] != second.headers["traceparent"].split("-")[1]


def test_a_failed_question_says_its_kind_and_no_words(seen: Any) -> None:
    """A message may quote the prompt; the trace must not."""
    made = traces.to("x", seen)
    made.start("question").end(EngineError("prompt_too_long", "The secret question is too long."))
    made.close()
    (span,) = seen.get_finished_spans()
    assert (span.status.status_code.name, span.status.description, span.events) == ("ERROR", "EngineError", ())


class TracedBridge(PacedBridge):
    """Keeps the headers that vLLM would get."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: list[Any] = []

    def generate(self, *args: Any, trace_headers: Any = None) -> Any:
        self.headers.append(trace_headers)
        return super().generate(*args)


async def asked(folder: Path, collected: Any, answer: list[Any]) -> TracedBridge:
    """One question through the route, below the span of id 2 in the trace of id 1."""
    server = await serve(folder, None)  # type: ignore[arg-type]  # no words are asked for
    server.parts.bridge = bridge = TracedBridge()
    bridge.answers = [answer]
    server.parts.traces = made = traces.to("x", collected)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url="http://x") as http:
        body = {"token_ids": [*range(40)], "warm": "no"}
        handle = (await http.post("/v1/prefixes", json=body)).json()["id"]
        headers = {"traceparent": f"00-{1:032x}-{2:016x}-01"}
        await http.post(f"/v1/prefixes/{handle}/generate", json={"token_ids": [3]}, headers=headers)
    made.close()
    server.parts.registry.close()
    return bridge


async def test_the_routes_put_admission_and_vllm_below_their_own_span(tmp_path: Path, seen: Any) -> None:
    """Client's span, ours, and below ours the wait at the door and what vLLM makes of the headers it gets."""
    bridge = await asked(tmp_path, seen, [1, 2])
    admission, generate = seen.get_finished_spans()
    assert (admission.name, generate.name) == ("readonce.admission", "readonce.generate")
    assert (generate.context.trace_id, generate.parent.span_id) == (1, 2)
    assert admission.parent.span_id == generate.context.span_id
    assert [headers["traceparent"] for headers in bridge.headers] == [f"00-{1:032x}-{generate.context.span_id:016x}-01"]
    assert generate.attributes["readonce.cached_tokens"] == 0
    assert generate.attributes["readonce.prompt_tokens"] == 41


async def test_a_question_that_fails_in_the_engine_ends_its_span_as_an_error(tmp_path: Path, seen: Any) -> None:
    """With the kind of the error."""
    await asked(tmp_path, seen, [EngineError("engine_failed", "Out of memory.")])
    (generate,) = [span for span in seen.get_finished_spans() if span.name == "readonce.generate"]
    assert generate.status.description == "EngineError"


async def test_a_stopped_stream_is_no_error(seen: Any) -> None:
    """It says that it was stopped."""
    made = traces.to("x", seen)

    async def stream() -> AsyncIterator[int]:
        with traces.ending(made.start("question")):
            yield 1
            yield 2

    started = stream()
    assert await anext(started) == 1
    await started.aclose()  # type: ignore[attr-defined]
    made.close()
    (span,) = seen.get_finished_spans()
    assert (span.status.status_code.name, dict(span.attributes)) == ("UNSET", {"readonce.stopped": True})


class _Collector(BaseHTTPRequestHandler):
    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    _Collector.bodies = []
    server = HTTPServer(("127.0.0.1", 0), _Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_closing_sends_what_is_left_to_the_collector(collector: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP, as a collector gets it: our service, our span."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    made = traces.to(f"http://127.0.0.1:{collector.server_port}/v1/traces")
    made.start("question", tokens=5).end()
    made.close()
    (body,) = _Collector.bodies
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    assert {item.key: item.value.string_value for item in resource.resource.attributes}["service.name"] == "readonce"
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["readonce.question"]


def test_inside_vllm_it_traces_where_vllm_does() -> None:
    """No endpoint of vLLM's, no spans; with one, through the provider that vLLM has set."""

    def client(endpoint: str | None) -> Any:
        return SimpleNamespace(vllm_config=SimpleNamespace(observability_config=SimpleNamespace(
            otlp_traces_endpoint=endpoint)))  # fmt: skip

    assert traces.of_server(client(None)).start("admission").headers == {}
    given = traces.of_server(client("http://127.0.0.1:4317")).start(
        "admission", {"traceparent": f"00-{1:032x}-{2:016x}-01"}
    )
    assert given.headers["traceparent"].startswith(f"00-{1:032x}-")


def test_the_endpoint_becomes_vllms_flag(tmp_path: Path) -> None:
    """None by default."""
    with_traces = settings(tmp_path, otlp_endpoint="http://127.0.0.1:4317")
    line = command_line(with_traces, tmp_path, 1, name="m", device="cpu")
    assert line[line.index("--otlp-traces-endpoint") + 1] == "http://127.0.0.1:4317"
    assert "--otlp-traces-endpoint" not in command_line(settings(tmp_path), tmp_path, 1, name="m", device="cpu")


def test_missing_packages_are_one_sentence_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM would end with a traceback."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"opentelemetry.sdk is not installed; run `pip install") as refused:
        command_line(settings(tmp_path, otlp_endpoint="http://x:1"), tmp_path, 1, name="m", device="cpu")
    assert refused.value.code == "traces_unavailable"
