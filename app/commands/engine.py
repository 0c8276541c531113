"""Decides how the commands about the engine speak: serve, engine, status. They only translate."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app import terminal
from app.commands.documents import Json, Kb
from app.problem import Problem
from app.settings import Settings

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.power import EngineStatus

WATCH_S = 1.0
_OTHER_LINES = 14

ProfileName = Annotated[
    str | None, typer.Option("--profile", help="cpu, 12gb, 24gb, 48gb, 80gb, 141gb, or auto: reads the card.")
]


def serve(
    host: Annotated[str | None, typer.Option("--host", help="Where the page listens.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65_535, help="The page's port.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", metavar="URL", help="An engine elsewhere.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="A name, a hub id or a folder.")] = None,
    profile: ProfileName = None,
) -> None:
    """Serve the page; the engine starts with it and ends with it."""
    from app.web import serve as serve_page

    settings = Settings.load(host=host, port=port, engine_url=engine, model=model, profile=profile)
    serve_page(settings, settings.host, settings.port)


def engine(
    model: Annotated[str | None, typer.Option("--model", help="A name, a hub id or a folder.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65_535, help="Where it listens.")] = None,
    profile: ProfileName = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the engine that runs, unless somebody uses it.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --stop: whoever uses it; answers break off.")] = False,
) -> None:
    """Run the engine alone until Ctrl-C; or end the one that runs."""
    from app.power import Power

    power = Power(Settings.load(model=model, engine_port=port, profile=profile))
    if stop:
        terminal.say("The engine has ended." if power.stop(force) else "No engine runs.")
        return
    if force:
        raise Problem("bad_usage", "--force goes with --stop.", usage=True)
    power.kind = "holder"
    asyncio.run(_run(power))


async def _run(power: Any) -> None:
    try:
        with terminal.steps() as report:
            await power.connect(report)
        status = await asyncio.to_thread(power.status)
        terminal.say(
            f"The engine answers at {status.url}/v1 as {status.model}; Ctrl-C ends it. Its log: {status.log_file}"
        )
        while (await asyncio.to_thread(power.status)).running:
            await asyncio.sleep(WATCH_S)
        raise Problem("engine_ended", f"The engine has ended; its log says why: {status.log_file}")
    finally:
        await power.release(linger=False)


def status(
    kb: Kb = "default",
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew every second until Ctrl-C.")] = False,
    dashboards: Annotated[
        Path | None,
        typer.Option("--dashboards", metavar="DIR", help="Write a Grafana dashboard and Prometheus alert rules there."),
    ] = None,
) -> None:
    """Show the engine and what of each document it holds. Starts nothing."""
    from app.commands.documents import opened
    from app.status import look, write_dashboards

    if dashboards is not None:
        for path in write_dashboards(dashboards):
            terminal.out().print(terminal.safe(str(path)))
        return
    assistant = opened()
    if as_json:
        row = _row(assistant, kb)
        seen = look(assistant, row["engine"]["url"] is not None)
        cache = None if seen.view is None else seen.view.to_json()
        terminal.print_json(row | {"cache": cache, "missed": seen.missed})
        _refuse(row)
        return
    if not watch:
        row = _row(assistant, kb)
        terminal.out().print(_shown(assistant, kb, row))
        _refuse(row)
        return
    if not terminal.out().is_interactive:  # a pipe, or a terminal that can't move its cursor: one page after another
        while True:
            terminal.out().print(_shown(assistant, kb, _row(assistant, kb)))
            time.sleep(WATCH_S)
    from rich.live import Live

    with Live(
        _shown(assistant, kb, _row(assistant, kb), watched=True), console=terminal.out(), auto_refresh=False
    ) as live:
        while True:
            time.sleep(WATCH_S)
            live.update(_shown(assistant, kb, _row(assistant, kb), watched=True), refresh=True)


def _refuse(row: dict[str, Any]) -> None:
    """Ends the command where an engine answers and can't be used: nobody is to take that for all being well."""
    refusal = row["engine"]["refusal"]
    if refusal is not None:
        terminal.complain(Problem(refusal["code"], refusal["message"]))
        raise typer.Exit(terminal.FAILED)


def _shown(assistant: Assistant, kb: str, row: dict[str, Any], watched: bool = False) -> Any:
    from rich.console import Group

    from app.status import look, page

    url = assistant.settings.engine_url
    seen = look(assistant, row["engine"]["url"] is not None)
    if seen.view is None:
        return Group(*([terminal.safe(seen.notice)] if seen.notice else []), _page(row, url))
    words = terminal.safe(_engine_words(row["engine"], url, with_cache=False))
    # As many rows as leave the terminal's height room for the lines around them.
    rows = max(1, terminal.out().height - _OTHER_LINES) if watched else None
    return Group(words, page(assistant, kb, seen.view, rows))


def _row(assistant: Assistant, kb: str) -> dict[str, Any]:
    engine = assistant.engine_status()
    read = sections_read(assistant, engine)
    documents = []
    for document in assistant.documents(kb):
        numbers = [section.number for section in assistant.corpus.sections(document.id)]
        seen = read.get((kb, document.name), set()) & set(numbers)
        documents.append(
            {
                "document_id": document.id,
                "title": document.title,
                "pages": document.pages,
                "tokens": document.tokens,
                "sections": len(numbers),
                "sections_read": len(seen),
                "state": "no_text"
                if not numbers
                else "cold"
                if not seen
                else "read"
                if len(seen) == len(numbers)
                else "partly",
            }
        )
    return {"engine": terminal.plain(engine), "documents": documents}


def sections_read(assistant: Assistant, engine: EngineStatus) -> dict[tuple[str, str], set[int]]:
    """(base, file name) -> sections that this life of the engine has read; it may have evicted some since."""
    from app.power import LEDGER_NAME

    path = assistant.settings.home / LEDGER_NAME
    found: dict[tuple[str, str], set[int]] = {}
    if not engine.instance or not path.exists():
        return found
    rows: list[tuple[str]] = []
    # Whoever writes into the file makes it anew where it is broken.
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as ledger:
        rows = ledger.execute("SELECT name FROM asked WHERE instance = ?", (engine.instance,)).fetchall()
    for (name,) in rows:
        kb, _, rest = name.partition("/")
        file, _, numbers = rest.rpartition("/")
        if file:
            found.setdefault((kb, file), set()).update(int(number) for number in numbers.split(",") if number.isdigit())
    return found


def _page(row: dict[str, Any], url: str | None) -> Any:
    from rich.console import Group

    engine = row["engine"]
    shown = terminal.table(
        "document", "pages", "sections", "tokens", "read by the engine", right=("pages", "sections", "tokens")
    )
    for document in row["documents"]:
        state = {
            "no_text": "no text",
            "cold": "not yet",
            "read": "all of it",
            "partly": f"{document['sections_read']} of {document['sections']} sections",
        }[document["state"]]
        shown.add_row(
            terminal.safe(document["title"]),
            f"{document['pages']:,}",
            f"{document['sections']:,}",
            f"{document['tokens']:,}",
            terminal.safe(state),
        )
    return Group(terminal.safe(_engine_words(engine, url)), *([shown] if row["documents"] else []))


def _engine_words(engine: dict[str, Any], url: str | None, with_cache: bool = True) -> str:
    if engine["refusal"] is not None:
        return f"The engine at {url} can't be used."
    if not engine["running"] and url is not None:
        return f"No engine answers at {url}."
    if not engine["running"]:
        return "No engine runs; the next question starts one."
    if engine["url"] is None:
        return f"The engine with {engine['model']} (process {engine['pid']}) is not ready yet: {engine['stage']}."
    lines = [f"Engine   {engine['model']} at {engine['url']}"]
    if engine["pid"] is not None:
        up = timedelta(seconds=round(time.time() - engine["started"])) if engine["started"] else "?"
        lines.append(f"Process  {engine['pid']}, up {up}, {engine['num_users']} using it now")
    if engine["features_off"]:
        lines.append(f"Off      {engine['features_off']}")
    if not with_cache:
        return "\n".join(lines)
    rate = "not reported" if engine["hit_rate"] is None else f"{engine['hit_rate']:.0%} of all prompt tokens reused"
    room = "" if engine["cache_tokens"] is None else f", room for {engine['cache_tokens']:,} tokens"
    return "\n".join([*lines, f"Cache    {rate}{room}"])
