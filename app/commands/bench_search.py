"""Decides how `readonce bench search` speaks: a table of what a search costs at a size, or JSON."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import terminal
from app.commands.documents import Json
from app.settings import Settings

if TYPE_CHECKING:
    from ingest.bench_search import SearchFigures, Spread


def search(
    passages: Annotated[int, typer.Option("--passages", min=300, max=10_000_000, help="The size of the base.")] = (
        100_000
    ),
    questions: Annotated[int, typer.Option("--questions", min=20, max=10_000, help="How many are asked.")] = 200,
    embedder: Annotated[
        str, typer.Option("--embedder", help="What makes vectors of questions is timed apart; none: not at all.")
    ] = "minilm",
    as_json: Json = False,
) -> None:
    """Measure searching on one core, in an invented base in a folder of its own; nothing of yours is touched."""
    from ingest.bench_search import SearchJob, measure

    index = Settings.load().vector_index.get_secret_value()
    with tempfile.TemporaryDirectory(prefix="readonce-bench-") as folder, terminal.bars("", 0) as bars:
        stage = bars.stage("documents")
        job = SearchJob(Path(folder), passages, questions, index, None if embedder == "none" else embedder)
        figures = measure(job, lambda done, total: stage("storing", done, total))
    if as_json:
        terminal.print_json(asdict(figures))
    else:
        _print(figures)


def _print(figures: SearchFigures) -> None:
    heads = "p50", "p95", "worst", "p50 of work", "p95 of work"
    shown = terminal.table("ms", *heads, right=heads)
    rows: dict[str, Spread | None] = {
        "search, the question's vector given": figures.search,
        "its words alone": figures.words,
        "its meaning alone": figures.meaning,
        "search on a tenth of the pages": figures.filtered,
        "the question's vector": figures.embedding,
    }
    for name, spread in rows.items():
        if spread is not None:
            shown.add_row(name, *(f"{figure:.1f}" for figure in asdict(spread).values()))
    out = terminal.out()
    counts = terminal.count(figures.num_passages, "passage"), terminal.count(figures.num_documents, "document")
    out.print(f"{counts[0]} in {counts[1]}, {figures.num_questions} questions, {figures.index}, one core", style="bold")
    out.print(shown)
    taken = figures.memory_mb - figures.memory_before_mb
    out.print(
        f"Stored in {figures.build_s:.0f} s. From opening to the first answer {figures.first_kept_s:.1f} s, and"
        f" {figures.first_made_s:.1f} s where the index is made from the store; {taken:.0f} MB of memory. The first"
        f" search after a document was added: {figures.after_change_ms:.0f} ms."
    )
    same = figures.num_questions - figures.num_differing
    out.print(f"The nearest passages are those that NumPy finds for {same} of {figures.num_questions} questions.")
