"""`readonce bench`: lines of JSON that are pure on stdout, a table with ratios, exit codes; servers by turns."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from library import Run
from virtual import FakeSystem

from app.bench import run as bench_run
from app.settings import Settings
from engine.base import EngineError
from engine.bench.systems import PlainName
from engine.lease import EngineStatus
from engine.server import RunningEngine
from engine.tokenizer import Tokenizer

REQUESTS_BEFORE_BURST = 2 + 3  # getting ready, then the quick scale's warm


class Stage:
    """The servers that `bench` would start: says which are up, and answers in their place without waiting."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.events: list[str] = []
        self.failing: dict[str, frozenset[int]] = {}
        self.plain_error: EngineError | None = None
        self.systems: dict[str, FakeSystem] = {}

    @contextlib.contextmanager
    def up(self, name: str) -> Iterator[RunningEngine]:
        self.events.append(f"{name} up")
        try:
            yield RunningEngine(f"http://{name}", "m", name, 8192, "0.29.0", 16, 512, folder=self.tokenizer.folder)
        finally:
            self.events.append(f"{name} down")

    def ours(self, settings: Settings, report: object) -> contextlib.AbstractContextManager[RunningEngine]:
        return self.up("ours")

    def plain(self, *given: object) -> contextlib.AbstractContextManager[RunningEngine]:
        if self.plain_error is not None:
            raise self.plain_error
        return self.up("plain")

    def open(self, name: PlainName, running: RunningEngine, *given: object) -> FakeSystem:
        self.events.append(f"{name} at {running.url}")
        fails = self.failing.get(name, frozenset())
        self.systems[name] = FakeSystem(name, read_tokens_per_s=1e9, token_s=0.0, host_s=0.0, fails=fails)
        return self.systems[name]


@pytest.fixture
def stage(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(tokenizer)
    monkeypatch.setattr(bench_run, "_our_engine", made.ours)
    monkeypatch.setattr(bench_run, "_plain", made.plain)
    monkeypatch.setattr(bench_run, "open_system", made.open)
    return made


@pytest.fixture
def run(command: Run) -> Run:
    return partial(command, "bench")


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_each_result_is_a_line_of_json_on_stdout_and_in_the_file(stage: Stage, run: Run, tmp_path: Path) -> None:
    """The same lines in both; each says where it was made."""
    out_file = tmp_path / "results.jsonl"
    out_file.write_text("what an earlier run left\n")
    code, out, _ = run("warm", "burst", "--quick", "--json", "-o", str(out_file))
    assert code == 0
    found = lines(out)
    assert [(line["system"], line["scenario"]) for line in found] == [
        (system, scenario) for system in ("readonce", "chat", "ids") for scenario in ("warm", "burst")
    ]
    assert lines(out_file.read_text()) == found
    assert set(found[0]) == {
        *("scenario", "system", "case", "document_tokens", "cold_ms", "warm_ms", "prompt_tokens", "cached_tokens"),
        "about",
    }
    assert (found[0]["document_tokens"], found[0]["prompt_tokens"], found[0]["cached_tokens"]) == (600, 664, 592)
    assert set(found[0]["about"]) == {
        *(
            "date",
            "machine",
            "readonce",
            "vllm",
            "python",
            "model",
            "max_model_len",
            "block_size",
            "num_blocks",
            "scale",
        ),
    }
    assert (found[0]["about"]["scale"], found[0]["about"]["vllm"]) == ("quick", "0.29.0")


def test_the_two_servers_are_never_up_at_once(stage: Stage, run: Run) -> None:
    """One memory does not hold both: ours is measured and gone before the plain one starts."""
    assert run("warm", "--quick", "--systems", "chat,tokens")[0] == 0
    assert stage.events == [
        *("ours up", "readonce at http://ours", "ours down"),
        *("plain up", "chat at http://plain", "tokens at http://plain", "plain down"),
    ]


def test_without_a_baseline_only_readonce_is_measured(stage: Stage, run: Run) -> None:
    """No plain server is started, no ratio is shown."""
    code, out, _ = run("warm", "--quick", "--baseline", "none")
    assert (code, stage.events) == (0, ["ours up", "readonce at http://ours", "ours down"])
    assert "×" not in out
    assert "chat" not in out


def test_table_shows_each_case_with_how_many_times_better_ours_is(stage: Stage, run: Run) -> None:
    """Reused tokens are the same in both here: 1.0 times."""
    code, out, _ = run("warm", "--quick", "--systems", "ids")
    assert code == 0
    assert "warm: 600 tokens" in out
    assert next(line for line in out.splitlines() if "× ids" in line).split() == ["readonce", "ids", "×", "ids"]
    reused = next(line for line in out.splitlines() if "reused tokens" in line)
    assert reused.split() == ["reused", "tokens", "592", "592", "1.0"]
    assert "sizes: quick" in out


def test_a_scenario_that_fails_is_told_and_the_rest_goes_on(stage: Stage, run: Run) -> None:
    """Exit code 3, the sentence on stderr with whose it is, the failure as a line of its own."""
    stage.failing["chat"] = frozenset({REQUESTS_BEFORE_BURST})
    code, out, err = run("warm", "burst", "trace", "--quick", "--json", "--systems", "chat")
    assert code == 3
    failed = [line for line in lines(out) if "error" in line]
    assert [(line["system"], line["scenario"], line["error"]["code"]) for line in failed] == [
        ("chat", "burst", "engine_failed")
    ]
    assert "readonce: chat, burst: It was told to fail." in err
    assert [line["scenario"] for line in lines(out) if line["system"] == "chat"] == ["warm", "burst", "trace", "trace"]


def test_what_was_measured_is_shown_though_the_plain_server_does_not_start(stage: Stage, run: Run) -> None:
    """Exit code 1 and why; the table of what there is comes first."""
    stage.plain_error = EngineError("out_of_memory", "There is not enough memory.")
    code, out, err = run("warm", "--quick")
    assert code == 1
    assert "warm: 600 tokens" in out
    assert "readonce: There is not enough memory." in err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["luke"], "There is no scenario 'luke'; choose from warm, burst, gap, trace, batch, file."),
        (["warm", "--systems", "chat,phone"], "There is no system 'phone'; --systems takes chat, ids, tokens."),
        (
            ["warm", "--systems", " ,"],
            "--systems names none; it takes chat, ids, tokens, and --baseline none leaves the plain server out.",
        ),
    ],
)
def test_unknown_names_are_wrong_usage(stage: Stage, run: Run, args: list[str], told: str) -> None:
    """Exit code 2, before anything is started."""
    code, out, err = run(*args)
    assert (code, out, err.split()) == (2, "", f"readonce: {told}".split())
    assert stage.events == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--baseline", "plain"], "plain is no address of an engine"),
        (["--baseline", "http://127.0.0.1:1"], "No engine answers at http://127.0.0.1:1"),
        (["-o", "/dev/null/results.jsonl"], "/dev/null/results.jsonl can't be used"),
    ],
)
def test_what_would_fail_at_the_end_is_told_before_anything_is_measured(
    stage: Stage, run: Run, args: list[str], told: str
) -> None:
    """A plain server that does not answer, a file that can't be written: exit code 1, and nothing was started."""
    code, out, err = run("warm", "--quick", *args)
    assert (code, out) == (1, "")
    assert f"readonce: {told}" in " ".join(err.split())
    assert stage.events == []


def test_an_engine_that_is_in_use_is_not_measured_with(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines would share the machine, and the figures would say nothing."""
    there = EngineStatus(None, "loading weights", "m", 4711, 1, None)
    monkeypatch.setattr("engine.lease.status", lambda settings: there)
    code, out, err = run("warm", "--quick", "--json")
    assert (code, lines(out)[0]["error"]["code"]) == (1, "engine_in_use")
    assert "process 4711" in err
    assert "readonce engine --stop" in err


def test_a_recorded_trace_is_played_in_place_of_the_invented_one(stage: Stage, run: Run, tmp_path: Path) -> None:
    """Ten milliseconds apart, two of its requests share a block of 512 tokens, shrunk to 128."""
    rows = [
        {"timestamp": 0, "input_length": 700, "output_length": 70, "hash_ids": [0, 1]},
        {"timestamp": 10, "input_length": 800, "output_length": 70, "hash_ids": [0, 2]},
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(map(json.dumps, rows)))
    code, out, _ = run("trace", "--quick", "--json", "--baseline", "none", "--trace", str(trace))
    assert code == 0
    (line,) = lines(out)
    assert (line["scenario"], line["requests"], line["left_out"]) == ("replay", 2, 0)
    assert line["mean_prompt_tokens"] == (175 + 200) / 2
    assert line["best_hit_rate"] == round(128 / (175 + 200), 4)
    broken = tmp_path / "broken.jsonl"
    broken.write_text("no json")
    code, out, _ = run("trace", "--json", "--trace", str(broken))
    assert (code, lines(out)[0]["error"]["code"]) == (1, "trace_unreadable")
