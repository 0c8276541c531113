"""Decides how `readonce bench` speaks: a line of JSON a result, or tables with how many times better each figure is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from app import terminal
from app.commands.bench_adding import ingest
from app.commands.bench_people import people
from app.commands.bench_search import search
from app.commands.documents import Json
from app.problem import Problem, tell
from app.settings import Settings

if TYPE_CHECKING:
    from app.bench.run import Measured, Plan


def bench(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCENARIO", help="warm, burst, gap, trace, batch, file; all."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="URL|none", help="A plain server that runs, or none; default: started."),
    ] = None,
    baseline_token: Annotated[
        str | None, typer.Option("--baseline-token", envvar="VLLM_API_KEY", help="What that server wants.")
    ] = None,
    systems: Annotated[
        str, typer.Option("--systems", help="How the plain server is asked: chat, ids, tokens; separated by commas.")
    ] = "chat,ids",
    engine: Annotated[str | None, typer.Option("--engine", metavar="URL", help="An engine elsewhere.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="A name, a hub id or a folder.")] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", exists=True, dir_okay=False, help="Recorded traffic in place of the invented trace."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, to see that it works; the figures say little.")
    ] = False,
    as_json: Json = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", dir_okay=False, help="Where the results go too (JSONL).")
    ] = None,
) -> None:
    """Measure this engine beside a plain server of the same vLLM, one after the other on this machine."""
    from app.bench.run import Plan, run, scale_of, scenarios_of, systems_of
    from engine.bench.run import job_of

    shown = _Shown(as_json, out)
    try:
        settings = Settings.load(engine_url=engine, model=model)
        job = job_of(scenarios_of(scenarios or []), scale_of(settings, quick), trace_file)
        plan = Plan(job, systems_of(systems), baseline, baseline_token)
        if out is not None:
            out.open("a").close()  # what can't be written is said before an hour of measuring
        try:
            with terminal.steps() as steps:
                run(settings, plan, steps, shown.take)
        finally:
            if not as_json:  # also what was measured before something failed
                _print_tables(plan, shown.measured)
    except Exception as error:
        problem = tell(error)
        if problem is None:
            raise
        terminal.fail(problem, as_json)
    if shown.num_failed:
        raise typer.Exit(terminal.SOME_FAILED if shown.num_failed < len(shown.measured) else terminal.FAILED)


class _EngineFirst(TyperGroup):
    """`readonce bench warm` is `readonce bench engine warm`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["engine", *args]
        return super().parse_args(ctx, args)


measuring = typer.Typer(cls=_EngineFirst, help="Measure: the engine where nothing else is named.")
measuring.command("engine")(bench)
measuring.command("search")(search)
measuring.command("ingest")(ingest)
measuring.command("people")(people)


class _Shown:
    """Keeps each result, writes its line at once, and says what failed."""

    def __init__(self, as_json: bool, out: Path | None) -> None:
        self._as_json = as_json
        self._out = out
        self.measured: list[Measured] = []
        self.num_failed = 0

    def take(self, measured: Measured) -> None:
        from engine.bench.run import Failure, row

        self.measured.append(measured)
        line = row(measured.system, measured.result, measured.about)
        if self._as_json:
            terminal.print_json(line)
        if self._out is not None:
            with self._out.open("w" if len(self.measured) == 1 else "a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if isinstance(measured.result, Failure):
            self.num_failed += 1
            error = measured.result.error
            terminal.complain(Problem(error.code, f"{measured.system}, {measured.result.scenario}: {error.message}"))


def _print_tables(plan: Plan, measured: list[Measured]) -> None:
    from engine.bench.figures import compare
    from engine.bench.run import Failure

    ours, *others = plan.columns
    rows = compare([(one.system, one.result) for one in measured if not isinstance(one.result, Failure)], plan.columns)
    # Beside each other system: how many times better ours is.
    figures = [ours, *(head for other in others for head in (other, f"× {other}"))]
    made: dict[tuple[str, str], Any] = {}
    for row in rows:
        key = (row.scenario, row.case)
        if key not in made:
            made[key] = terminal.table("", *figures, right=tuple(figures))
        cells = [_words(row.values[0])]
        for value, ratio in zip(row.values[1:], row.ratios, strict=True):
            cells += [_words(value), "" if ratio is None else f"{ratio:,.1f}"]
        made[key].add_row(row.figure.words, *cells)
    for (scenario, case), table in made.items():
        terminal.out().print(terminal.safe(f"{scenario}: {case}"), style="bold")
        terminal.out().print(table)
    if made:
        terminal.out().print(terminal.safe(_about_words(measured)), style="dim")


def _words(value: float | None) -> str:
    if value is None:
        return "not reported"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}" if abs(value) < 10 else f"{value:,.1f}"


def _about_words(measured: list[Measured]) -> str:
    of = measured[0].about
    where = ", ".join(of.machine.gpus) or f"{of.machine.cores} cores of {of.machine.cpu}"
    return f"{of.date}, {where}, {of.model}, vLLM {of.vllm or 'not reported'}; sizes: {of.scale}."
