"""Decides how `readonce bench people` speaks: tables of what many people at once cost the page, or JSON."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import terminal
from app.commands.documents import Json
from app.settings import Settings

if TYPE_CHECKING:
    from app.bench.load_figures import LoadFigures, Spread


def people(
    people: Annotated[int, typer.Option("--people", min=1, max=5_000, help="At once.")] = 200,
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="How long.")] = 600.0,
    warm_up: Annotated[float, typer.Option("--warm-up", min=1, help="Seconds in which they come.")] = 60.0,
    think: Annotated[float, typer.Option("--think", min=0, help="Seconds between answer and question, mean.")] = 30.0,
    programs: Annotated[float, typer.Option("--programs", min=0, max=1, help="Share that asks by the API.")] = 0.1,
    as_json: Json = False,
) -> None:
    """Measure many people at once on the page and the API, over an engine without a model, in a home of its own."""
    from app.bench.load import LoadPlan, measure_people

    if warm_up >= seconds:
        raise typer.BadParameter("the warm-up has to be shorter than the whole", param_hint="--warm-up")
    plan = LoadPlan(people, seconds, warm_up, think, programs)
    with tempfile.TemporaryDirectory(prefix="readonce-bench-") as folder, terminal.steps() as steps:
        figures = measure_people(Settings.load(home=Path(folder)), plan, steps.busy)
    if as_json:
        terminal.print_json(asdict(figures))
    else:
        _print(figures)


def _print(figures: LoadFigures) -> None:
    out = terminal.out()
    out.print(f"{figures.people} people, {figures.seconds:.0f} s", style="bold")
    spreads = "p50", "p95", "worst"
    shown = terminal.table("own time, ms", *spreads, right=spreads)
    for way in figures.ways:
        name = way.way if way.way == "API" else f"the {way.way}"
        _row(shown, f"{name}, to the first word", way.first)
        _row(shown, f"{name}, to the checked answer", way.done)
    _row(shown, "the page's state", figures.state)
    out.print(shown)
    losses = "questions", "unanswered", "out of order", "from another place", "not kept"
    shown = terminal.table("", *losses, right=losses)
    for way in figures.ways:
        counts = way.questions, way.unanswered, way.out_of_order, way.other_place, way.not_kept
        shown.add_row(way.way, *(f"{count:,}" for count in counts))
    out.print(shown)
    for problem in {problem for way in figures.ways for problem in way.problems}:
        out.print(terminal.safe(f"In place of an answer: {problem}"))
    waited = "" if figures.waited_ms is None else f", and waited {figures.waited_ms:.0f} ms for a core"
    first, middle, last = figures.memory_mb
    out.print(
        f"A question cost the page's process {figures.cpu_ms:.0f} ms of CPU time{waited}. Its memory in the three"
        f" thirds of the time: {first:.0f}, {middle:.0f}, {last:.0f} MB. Load average {figures.load[0]:.1f}, at most"
        f" {figures.load[1]:.1f}."
    )


def _row(shown: object, name: str, spread: Spread | None) -> None:
    if spread is not None:
        shown.add_row(name, *(f"{figure:.0f}" for figure in astuple(spread)))  # type: ignore[attr-defined]
