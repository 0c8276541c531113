"""Decides how a benchmark runs: each scenario on one system after the other, each result a line of JSON as it comes.

    python -m engine.bench --url URL --tokenizer FILE [SCENARIO...] [--systems readonce,chat,ids,tokens] [--scale gpu]

needs no more than httpx, numpy and tokenizers, so it runs beside any vLLM. `readonce bench` starts the servers too.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from engine.base import EngineError
from engine.bench.base import System
from engine.bench.documents import Writer
from engine.bench.file import file
from engine.bench.gap import gap
from engine.bench.machine import About, about
from engine.bench.replay import Request, load, replay
from engine.bench.results import Result
from engine.bench.scenarios import batch, burst, ready, trace, warm
from engine.bench.sizes import SCALES, Scale, ScaleName
from engine.bench.systems import PlainName, open_plain, open_readonce
from engine.probe import probe
from engine.server import RunningEngine
from engine.tokenizer import Tokenizer

Scenario = Callable[[System, Writer, Scale], AsyncIterator[Result]]
SCENARIOS: dict[str, Scenario] = {
    "warm": warm,
    "burst": burst,
    "gap": gap,
    "trace": trace,
    "batch": batch,
    "file": file,
}
OURS = "readonce"
PLAIN: tuple[PlainName, ...] = get_args(PlainName)


@dataclass(frozen=True)
class Failure:
    """A scenario that a system did not get through; what it gave before stands."""

    scenario: str
    error: EngineError


@dataclass(frozen=True)
class Job:
    """What is measured, on every system alike.

    Attributes:
        scenarios: Names of `SCENARIOS`.
        recorded: Plays this trace in place of the invented one.
        file_wave: See `Scale.file_wave`; None: the scale's.
    """

    scenarios: tuple[str, ...]
    scale: ScaleName
    recorded: tuple[Request, ...] | None = None
    file_wave: int | None = None


def job_of(scenarios: Sequence[str], scale: ScaleName, trace_file: Path | None, file_wave: int | None = None) -> Job:
    """All scenarios where none is named.

    Raises:
        EngineError: `unknown_scenario`, `trace_unreadable`.
    """
    for name in scenarios:
        if name not in SCENARIOS:
            raise EngineError("unknown_scenario", f"There is no scenario {name!r}; choose from {', '.join(SCENARIOS)}.")
    recorded = None if trace_file is None else load(trace_file)
    return Job(tuple(scenarios) or tuple(SCENARIOS), scale, recorded, file_wave)


async def measure(system: System, job: Job, writer: Writer, max_model_len: int) -> AsyncIterator[Result | Failure]:
    """Runs the scenarios one after the other; one that fails does not keep the next from its turn.

    Raises:
        EngineError: `context_too_short`, or the system does not even answer one question.
    """
    scale = SCALES[job.scale].fitted(max_model_len)
    if job.file_wave is not None:
        scale = dataclasses.replace(scale, file_wave=job.file_wave)
    await ready(system, writer)
    for name in job.scenarios:
        played = name == "trace" and job.recorded is not None
        results = (
            replay(system, writer, scale, job.recorded or (), max_model_len)
            if played
            else SCENARIOS[name](system, writer, scale)
        )
        try:
            async for result in results:
                yield result
        except EngineError as error:
            yield Failure("replay" if played else name, error)


def row(system: str, result: Result | Failure, of: About) -> dict[str, Any]:
    """The line of JSON: what it is, its figures, and where it was made."""
    head = {"scenario": result.scenario, "system": system}
    if isinstance(result, Failure):
        figures: dict[str, Any] = {"error": {"code": result.error.code, "message": result.error.message}}
    else:
        figures = {"case": result.case, **dataclasses.asdict(result)}
    return head | figures | {"about": dataclasses.asdict(of)}


def open_system(name: str, running: RunningEngine, tokenizer: Tokenizer) -> System:
    """A system by its name, `readonce` or one of `PLAIN`.

    Raises:
        EngineError: `unknown_system`.
    """
    if name == OURS:
        from engine.client import Client

        return open_readonce(Client(running, tokenizer=tokenizer), running.url)
    for plain in PLAIN:
        if name == plain:
            return open_plain(plain, running, tokenizer)
    raise EngineError("unknown_system", f"There is no system {name!r}; choose from {OURS}, {', '.join(PLAIN)}.")


def main(arguments: Sequence[str]) -> int:
    """Measures a server that runs, prints a line of JSON a result; 0 all done, 1 failed, 3 some scenarios failed."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}; default: all")
    parser.add_argument("--url", required=True, help="where the server listens")
    parser.add_argument("--model", help="what requests call the model; default: what the server lists first")
    parser.add_argument("--tokenizer", required=True, type=Path, help="the model's tokenizer.json")
    parser.add_argument("--systems", default=OURS, help=f"of {OURS}, {', '.join(PLAIN)}; separated by commas")
    parser.add_argument("--scale", choices=tuple(SCALES), default="gpu")
    parser.add_argument("--trace", type=Path, help="plays this recorded trace in place of the invented one")
    parser.add_argument(
        "--file-wave", type=_whole, help="documents that `file` reads before the questions on any of them"
    )
    given = parser.parse_args(arguments)
    try:
        job = job_of(given.scenarios, given.scale, given.trace, given.file_wave)
        return asyncio.run(_measure_running(given, job))
    except EngineError as error:
        print(f"{error.code}: {error.message}", file=sys.stderr)
        return 1


def _whole(words: str) -> int:
    number = int(words)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return number


async def _measure_running(given: argparse.Namespace, job: Job) -> int:
    running = probe(given.url, token=os.environ.get("VLLM_API_KEY"))
    running = dataclasses.replace(running, model=given.model or running.model)
    tokenizer = Tokenizer(given.tokenizer.parent)
    of = about(running, job.scale)
    failed = done = 0
    for name in given.systems.split(","):
        system = open_system(name, running, tokenizer)
        try:
            async for result in measure(system, job, Writer(tokenizer), running.max_model_len):
                failed += isinstance(result, Failure)
                done += not isinstance(result, Failure)
                print(json.dumps(row(name, result, of)), flush=True)
        finally:
            await system.close()
    return 0 if not failed else 3 if done else 1
