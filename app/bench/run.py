"""Decides in which order a benchmark has its servers: ours first, then the plain one, never both in one memory."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.problem import Problem
from engine.bench.documents import Writer
from engine.bench.machine import About, about
from engine.bench.run import OURS, PLAIN, SCENARIOS, Failure, Job, measure, open_system
from engine.bench.server import PlainSettings, plain_server
from engine.bench.sizes import ScaleName
from engine.progress import Report

if TYPE_CHECKING:
    from app.settings import Settings
    from engine.bench.results import Result
    from engine.server import RunningEngine
    from engine.tokenizer import Tokenizer

NO_BASELINE = "none"


@dataclass(frozen=True)
class Plan:
    """What is measured beside what.

    Attributes:
        systems: Ways to ask the plain server, of `engine.bench.PLAIN`.
        baseline: A plain server that runs; None: one is started; `none`: readonce alone.
        baseline_token: For a plain server that wants one.
    """

    job: Job
    systems: tuple[str, ...]
    baseline: str | None = None
    baseline_token: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The systems in the order in which they are measured."""
        return (OURS,) if self.baseline == NO_BASELINE else (OURS, *self.systems)


@dataclass(frozen=True)
class Measured:
    """One result, of which system, and where."""

    system: str
    result: Result | Failure
    about: About


def scale_of(settings: Settings, quick: bool) -> ScaleName:
    return "quick" if quick else "gpu" if settings.on_gpu else "cpu"


def scenarios_of(names: Sequence[str]) -> tuple[str, ...]:
    """The same names.

    Raises:
        Problem: `unknown_scenario`.
    """
    for name in names:
        if name not in SCENARIOS:
            raise Problem(
                "unknown_scenario", f"There is no scenario {name!r}; choose from {', '.join(SCENARIOS)}.", usage=True
            )
    return tuple(names)


def systems_of(words: str) -> tuple[str, ...]:
    """The names in `words`, separated by commas.

    Raises:
        Problem: `unknown_system`.
    """
    names = tuple(name.strip() for name in words.split(",") if name.strip())
    for name in names:
        if name not in PLAIN:
            raise Problem(
                "unknown_system", f"There is no system {name!r}; --systems takes {', '.join(PLAIN)}.", usage=True
            )
    if not names:
        raise Problem(
            "unknown_system",
            f"--systems names none; it takes {', '.join(PLAIN)}, and --baseline {NO_BASELINE} leaves the plain server "
            "out.",
            usage=True,
        )
    return names


def run(settings: Settings, plan: Plan, report: Report, take: Callable[[Measured], None]) -> None:
    """Gives each result to `take` as it is there. Servers that were started are gone at the end.

    Raises:
        Problem: `engine_in_use` where an engine of this home runs: it would be measured with.
        EngineError: A server does not start or does not answer.
    """
    from engine.probe import probe
    from engine.tokenizer import Tokenizer

    if plan.baseline is not None and plan.baseline != NO_BASELINE:
        probe(plan.baseline, token=plan.baseline_token)  # now, and not after all of ours was measured
    with _our_engine(settings, report) as running:
        tokenizer = Tokenizer(running.folder or _tokenizer_folder(settings, report))
        asyncio.run(_measure((OURS,), running, tokenizer, plan, report, take))
    if len(plan.columns) > 1:
        with _plain(settings, plan, running, report) as plain:
            asyncio.run(_measure(plan.systems, plain, tokenizer, plan, report, take))


async def _measure(
    names: tuple[str, ...],
    running: RunningEngine,
    tokenizer: Tokenizer,
    plan: Plan,
    report: Report,
    take: Callable[[Measured], None],
) -> None:
    of = about(running, plan.job.scale)
    for name in names:
        report(f"Measuring {name} at {running.url}.")
        system = open_system(name, running, tokenizer)
        try:
            async for result in measure(system, plan.job, Writer(tokenizer), running.max_model_len):
                take(Measured(name, result, of))
        finally:
            await system.close()


@contextlib.contextmanager
def _our_engine(settings: Settings, report: Report) -> Iterator[RunningEngine]:
    """One of the benchmark's own, or the one elsewhere; ended at the end, and its memory free."""
    from engine.lease import connect, status, stop

    ours = replace(settings.engine, state_dir=settings.home / "bench" / "engine", port=None, keep_alive_s=0.0)
    if settings.engine_url is None:
        found = status(settings.engine) or status(ours)
        if found is not None:
            raise Problem(
                "engine_in_use",
                f"An engine runs (process {found.pid}) and would take part in what is measured; "
                "end it with `readonce engine --stop`, or let the other benchmark end first.",
            )
        # What an earlier run had read would be read again, in the background of what is measured now.
        shutil.rmtree(ours.state_dir, ignore_errors=True)
    lease = connect(ours, report)
    try:
        yield lease.engine
    finally:
        stop(ours)
        lease.close()


@contextlib.contextmanager
def _plain(settings: Settings, plan: Plan, running: RunningEngine, report: Report) -> Iterator[RunningEngine]:
    from engine.models import resolve
    from engine.probe import probe

    if plan.baseline is not None:
        yield probe(plan.baseline, token=plan.baseline_token)
        return
    engine = settings.engine
    folder = running.folder or resolve(engine.model, engine.cache_dir, offline=engine.offline, report=report).folder
    plain = PlainSettings(
        folder=folder,
        name=running.model,
        log_file=settings.home / "bench" / "plain.log",
        device=engine.device,
        max_model_len=running.max_model_len,
        kv_cache_gib=engine.kv_cache_gib,
        gpu_memory_utilization=engine.gpu_memory_utilization or settings.engine_profile.gpu_memory_utilization,
        start_timeout_s=engine.start_timeout_s,
        extra_args=engine.extra_args,
    )
    with plain_server(plain, report) as started:
        yield started


def _tokenizer_folder(settings: Settings, report: Report) -> Path:
    from engine.models import resolve_tokenizer

    return resolve_tokenizer(settings.model_name, settings.cache, report=report).folder
