"""How each system is asked and what of its stream counts, against a double; the plain server's launch line and end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from http_double import Double, serving, usage, words
from processes import eventually, pids_of_group
from tiny import write_tiny_tokenizer

from engine.base import EngineError
from engine.bench.base import Document
from engine.bench.run import job_of, main, open_system
from engine.bench.server import PlainSettings, command_line, environment, plain_server
from engine.bench.systems import open_plain
from engine.server import RunningEngine

MODEL = "m"
DOCUMENT = Document((11, 12, 13), 'three "words" here')
QUESTION = (14, 15)


class Encoder:
    """Says ids as they are."""

    def encode_text(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(f" {number}" for number in ids)


@pytest.fixture
def double() -> Iterator[Double]:
    with serving(Double()) as made:
        yield made


def running(double: Double) -> RunningEngine:
    return RunningEngine(double.url, MODEL, "i", 4096)


def delta(**fields: Any) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": MODEL} | {
        "choices": [{"index": 0, "delta": fields, "finish_reason": None}]
    }


async def test_chat_is_asked_in_words_and_counts_no_event_without_one(double: Double) -> None:
    """The document and the question are one message; the event that only names the speaker is not the first token."""
    opening = delta(role="assistant", content="")
    double.chunks = [opening, 0.3, delta(content="a"), delta(content=""), usage(90, 2, 64)]
    system = open_plain("chat", running(double), Encoder())
    timing = await system.ask(DOCUMENT, QUESTION, 2)
    assert double.bodies == [
        {
            "model": MODEL,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 2,
            "min_tokens": 2,
            "ignore_eos": True,
            "temperature": 0,
            "messages": [{"role": "user", "content": 'three "words" here 14 15'}],
        }
    ]
    assert (timing.prompt_tokens, timing.cached_tokens, timing.output_tokens, timing.num_events) == (90, 64, 2, 2)
    assert timing.first_s >= 0.3  # after the pause that follows the opening event
    await system.close()


async def test_ids_travel_as_numbers(double: Double) -> None:
    """Document and question are one prompt; an event without text is a token too."""
    double.chunks = [words(""), words("ab"), usage(5, 3, 0)]
    system = open_plain("ids", running(double), Encoder())
    seen: list[int | None] = []
    timing = await system.ask(DOCUMENT, QUESTION, 3, seen.append)
    assert double.bodies[0]["prompt"] == [11, 12, 13, 14, 15]
    assert (timing.prompt_tokens, timing.cached_tokens, timing.output_tokens, timing.num_events) == (5, 0, 3, 2)
    assert seen == [None, None]
    await system.close()


async def test_tokens_come_back_as_numbers(double: Double) -> None:
    """Nothing is turned into text; an event says how many tokens it brought. Cached tokens were not reported."""
    double.chunks = [{"choices": [{"index": 0, "token_ids": [7, 8]}]}, {"choices": [], "usage": {"prompt_tokens": 5}}]
    system = open_plain("tokens", running(double), Encoder())
    seen: list[int | None] = []
    timing = await system.ask(DOCUMENT, QUESTION, 2, seen.append)
    body = double.bodies[0]
    assert body["token_ids"] == [11, 12, 13, 14, 15]
    assert body["sampling_params"] == {
        "max_tokens": 2,
        "min_tokens": 2,
        "ignore_eos": True,
        "temperature": 0,
        "detokenize": False,
    }
    assert (timing.prompt_tokens, timing.cached_tokens, seen) == (5, None, [2])
    await system.close()


async def test_readonce_is_asked_through_its_client(double: Double) -> None:
    """Whatever way that takes: cached tokens are the receipt's; words that were held back are no event of their own."""
    from engine.bench.systems import open_readonce
    from engine.client import Client

    double.chunks = [words("a", [1]), words("bc", [2, 3]), words("d", [], "length"), usage(5, 3, 3)]
    system = open_readonce(Client(running(double)), double.url)
    seen: list[int | None] = []
    timing = await system.ask(DOCUMENT, QUESTION, 3, seen.append)
    assert (timing.prompt_tokens, timing.cached_tokens, timing.output_tokens) == (5, 3, 3)
    assert seen == [1, 2]
    await system.close()


@pytest.mark.parametrize(
    ("status", "code"), [(404, "route_missing"), (400, "engine_failed"), (500, "engine_failed"), (401, "engine_failed")]
)
async def test_a_refusal_is_one_sentence_with_the_servers_words(double: Double, status: int, code: str) -> None:
    """A route that the server does not have is told apart: it can be left out."""
    double.refuse = lambda body: (status, "no such thing")
    system = open_plain("tokens", running(double), Encoder())
    with pytest.raises(EngineError, match="no such thing") as caught:
        await system.ask(DOCUMENT, QUESTION, 2)
    assert caught.value.code == code
    await system.close()


async def test_a_stream_that_fails_or_says_nothing_is_an_error(double: Double) -> None:
    """An error event, no event, and nobody at the address."""
    system = open_plain("ids", running(double), Encoder())
    for chunks in ([words("a"), {"error": {"message": "gone wrong"}}], [usage(5, 0, 0)]):
        double.chunks = list(chunks)
        with pytest.raises(EngineError, match=r"gone wrong|before a word") as caught:
            await system.ask(DOCUMENT, QUESTION, 2)
        assert caught.value.code == "engine_failed"
    await system.close()
    nobody = open_plain("ids", replace(running(double), url="http://127.0.0.1:1"), Encoder())
    with pytest.raises(EngineError) as caught:
        await nobody.ask(DOCUMENT, QUESTION, 2)
    assert caught.value.code == "engine_unreachable"
    await nobody.close()


def test_unknown_names_are_refused_with_those_that_there_are(double: Double) -> None:
    """Systems and scenarios alike."""
    with pytest.raises(EngineError, match="chat, ids, tokens"):
        open_system("telepathy", running(double), Encoder())  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="warm, burst, gap, trace, batch"):
        job_of(["warm", "luke"], "cpu", None)


def test_plain_server_is_vllms_default_with_our_memory(tmp_path: Path) -> None:
    """Nothing of ours is set but what both need alike: length, memory, and on a CPU the number type."""
    settings = PlainSettings(tmp_path / "model", MODEL, tmp_path / "log", max_model_len=8192)
    assert command_line(settings, 8011, "cpu") == [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(tmp_path / "model"),
        "--served-model-name",
        MODEL,
        "--host",
        "127.0.0.1",
        "--port",
        "8011",
        "--max-model-len",
        "8192",
        "--kv-cache-memory-bytes",
        "2147483648",
        "--dtype",
        "bfloat16",
        "--enable-prompt-tokens-details",
        "--enforce-eager",
    ]
    assert command_line(replace(settings, extra_args=("--load-format", "dummy")), 8011, "cuda")[11:] == [
        "--max-model-len",
        "8192",
        "--gpu-memory-utilization",
        "0.9",
        "--enable-prompt-tokens-details",
        "--load-format",
        "dummy",
    ]


def test_plain_server_has_no_plugin_and_none_of_our_variables() -> None:
    """An empty allow-list lets none in; what changes vLLM's defaults is not inherited."""
    inherited = {
        "PATH": "p",
        "PYTHONPATH": "q",
        "VLLM_PLUGINS": "readonce",
        "PYTHONHASHSEED": "0",
        "VLLM_API_KEY": "k",
        "READONCE_PLUGIN_CORE": "1",
    }
    made = environment("cuda", inherited)
    assert made["VLLM_PLUGINS"] == ""
    assert (made["PATH"], made["PYTHONPATH"]) == ("p", "q")
    assert not {"PYTHONHASHSEED", "VLLM_API_KEY", "READONCE_PLUGIN_CORE"} & made.keys()


# A server that answers what a plain vLLM does when it is asked what it is, and has a child of its own.
_SERVER = """
import http.server, json, subprocess, sys
subprocess.Popen(["sleep", "600"])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"data": [{"id": "m", "max_model_len": 77}]}).encode()
        self.send_response(200); self.end_headers(); self.wfile.write(body)
    def log_message(self, *arguments): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_nothing_of_the_plain_server_outlives_its_block(tmp_path: Path) -> None:
    """Neither the server nor its child, which a signal to the server alone would leave."""
    settings = PlainSettings(tmp_path, MODEL, tmp_path / "logs" / "plain.log")
    with plain_server(settings, command=[sys.executable, "-c", _SERVER]) as plain:
        assert (plain.model, plain.max_model_len) == (MODEL, 77)
        groups = [group for group in children_groups() if len(pids_of_group(group)) >= 3]
        assert len(groups) == 1  # the server, its child, and what watches over both
    assert pids_of_group(groups[0]) == set()


def test_nothing_of_the_plain_server_outlives_a_killed_benchmark(tmp_path: Path) -> None:
    """kill -9 of whoever started it."""
    program = textwrap.dedent(f"""
        import pathlib, sys, time
        from engine.bench.server import PlainSettings, plain_server
        settings = PlainSettings(pathlib.Path("."), "m", pathlib.Path({str(tmp_path / "plain.log")!r}))
        with plain_server(settings, command=[sys.executable, "-c", {_SERVER!r}]):
            print("ready", flush=True)
            time.sleep(600)
    """)
    root = Path(__file__).parents[2]
    owner = subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        (group,) = {group for group in children_groups(owner.pid) if len(pids_of_group(group)) >= 3}
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    assert eventually(lambda: not pids_of_group(group))


def test_a_plain_server_that_dies_is_explained(tmp_path: Path) -> None:
    """As a dead engine of ours: by its log."""
    settings = PlainSettings(tmp_path, MODEL, tmp_path / "plain.log")
    dying = [sys.executable, "-c", "raise SystemExit('ValueError: no such luck')"]
    with pytest.raises(EngineError, match="no such luck") as caught, plain_server(settings, command=dying):
        raise AssertionError("it never answered")
    assert caught.value.code == "engine_died"


def children_groups(parent: int | None = None) -> set[int]:
    """Process groups that children of a process lead."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == (parent or os.getpid()) and fields[2] == stat.parent.name:
            found.add(int(fields[2]))
    return found


def test_measuring_needs_none_of_the_apps_packages() -> None:
    """A machine with vLLM and httpx is enough: what only the app or a hub needs is not loaded."""
    program = "import sys, engine.bench; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    forbidden = {
        "openai",
        "chainlit",
        "typer",
        "rich",
        "pydantic",
        "huggingface_hub",
        "transformers",
        "filelock",
        "vllm",
    }
    assert forbidden & set(done.stdout.split()) == set()


def test_nobody_at_the_address_is_told_by_the_small_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence on stderr, nothing on stdout, exit code 1."""
    assert main(["warm", "--url", "http://127.0.0.1:1", "--tokenizer", str(tmp_path / "tokenizer.json")]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("engine_unreachable: No engine answers at http://127.0.0.1:1")


def test_the_small_entry_prints_a_line_a_result(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For each system that is named; requests call the model as they were told to. A failed scenario: exit code 3."""
    folder = write_tiny_tokenizer(tmp_path)
    monkeypatch.setattr("engine.bench.run.probe", lambda url, **given: replace(running(double), url=url))
    double.chunks = [words("a"), words("b"), usage(664, 2, 512)]
    given = ["--url", double.url, "--tokenizer", str(folder / "tokenizer.json"), "--scale", "quick", "--model", "other"]
    assert main(["warm", *given, "--systems", "ids,tokens"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["system"], line["scenario"], line["cached_tokens"]) for line in lines] == [
        ("ids", "warm", 512),
        ("tokens", "warm", 512),
    ]
    assert {body["model"] for body in double.bodies} == {"other"}
    assert lines[0]["about"]["model"] == "other"
    num_before = len(double.bodies) + 2 + 3
    double.refuse = lambda body: (500, "too much") if len(double.bodies) > num_before else None
    assert main(["warm", "burst", *given, "--systems", "ids"]) == 3
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["scenario"], "error" in line) for line in lines] == [("warm", False), ("burst", True)]
