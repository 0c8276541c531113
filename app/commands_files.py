"""Decides how the commands that read files speak: add, extract. They only translate."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app import terminal
from app.commands_documents import Jsonl, Kb, finish, opened, refused
from app.problem import Problem
from app.settings import Settings

if TYPE_CHECKING:
    from ingest.add import Added

Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders (with all below them) or globs.")]

STYLES = {
    "ok": "green",
    "replaced": "green",
    "unchanged": "dim",
    "duplicate": "yellow",
    "no_text": "yellow",
    "error": "red",
}


Tagged = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag that each file is given.")]


def add(paths: Paths, kb: Kb = "default", tags: Tagged = None, jsonl: Jsonl = False) -> None:
    """Take files in: read, split and index them, so that they can be searched and asked about."""
    from ingest.tags import tag

    given = [tag(words) for words in tags or ()]
    files = _found(paths)
    assistant = opened()
    failed = 0
    taken: list[str] = []
    with terminal.bars("files", len(files)) as bars:
        for file in files:
            try:
                row = _added(assistant.add(file, kb=kb, tags=given, progress=bars.stage(file.name)), file)
            except Exception as error:  # one bad file never stops the others
                row = refused(error, file)
            bars.next()
            failed += row["status"] == "error"
            if row["status"] in ("ok", "replaced"):
                taken.append(row["document_id"])
            terminal.print_json(row) if jsonl else _print_added(row)
            if row["status"] == "error":
                terminal.complain(_about(file, row["error"]["code"], row["error"]["message"]))
    if taken:
        asyncio.run(assistant.ahead.read(taken, kb))
    assistant.corpus.close()
    finish(failed, len(files))


def extract(paths: Paths, jsonl: Jsonl = False) -> None:
    """Print the text of files, page by page; nothing is stored."""
    from ingest.document import IngestError
    from ingest.read import read

    files = _found(paths)
    settings = Settings.load().ingest
    failed = 0
    for file in files:
        started = time.perf_counter()
        row: dict[str, Any] = {"file": str(file), "status": "ok", "pages": []}
        try:
            document = read(file, settings)
            row["pages"] = [page.text for page in document.pages]
            row["status"] = "ok" if any(text.strip() for text in row["pages"]) else "no_text"
        except IngestError as error:
            row |= {"status": "error", "error": error.code, "message": error.message}
            terminal.complain(_about(file, error.code, error.message))
            failed += 1
        row["seconds"] = round(time.perf_counter() - started, 3)
        if jsonl:
            terminal.print_json(row)
        else:
            for number, text in enumerate(row["pages"], 1):
                terminal.out().rule(f"{file.name}, page {number}", style="dim")
                terminal.out().print(terminal.safe(text))
    finish(failed, len(files))


def _found(paths: list[str]) -> tuple[Path, ...]:
    from app.files import find_files
    from ingest.read import SUFFIXES

    found = find_files(paths, SUFFIXES)
    if found.left_out:
        terminal.say(found.left_out_words)
    if not found.files:
        raise Problem(
            "nothing_to_add", f"No file to read in {', '.join(paths)}; {', '.join(sorted(SUFFIXES))} can be read."
        )
    return found.files


def _about(file: Path, code: str, message: str) -> Problem:
    """Names the file by its path, once."""
    rest = message.removeprefix(str(file) if message.startswith(str(file)) else file.name)
    return Problem(code, f"{file}: {message}" if rest == message else f"{file}{rest}")


def _added(added: Added, file: Path) -> dict[str, Any]:
    row = {"file": str(file), "status": added.status, "document_id": added.document_id, "error": None}
    row |= {name: getattr(added, name) for name in ("pages", "sections", "passages", "tokens")}
    return row | {"seconds": round(added.seconds, 3), "warnings": list(added.warnings)}


def _print_added(row: dict[str, Any]) -> None:
    if row["status"] == "error":
        return
    name, status = Path(row["file"]).name, row["status"]
    counts = [terminal.count(row[f"{noun}s"], noun) for noun in ("page", "section", "passage")]
    facts = ", ".join([*counts, f"{row['seconds']:.1f} s"])
    line = terminal.safe(f"{status:<10} {name}  ")
    line.stylize(STYLES.get(status, ""), 0, len(status))
    line.append(facts, "dim")
    terminal.out().print(line)
    for warning in row["warnings"]:
        terminal.out().print(terminal.safe(f"           {warning}"), style="yellow")
