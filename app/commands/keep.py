"""Decides how the commands that look after a home speak: check, backup, restore. They only translate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app import terminal
from app.commands.documents import Json, opened
from app.problem import Problem
from app.settings import Settings


def check(
    repair: Annotated[bool, typer.Option("--repair", help="Make anew what can be made from the stored texts.")] = False,
    as_json: Json = False,
) -> None:
    """Look whether all that is stored fits together. Exit code 0: all is right; 1: something is not."""
    from app import keep

    assistant = opened()
    report = keep.check(assistant, repair)
    assistant.corpus.close()
    if as_json:
        terminal.print_json(terminal.plain(report) | {"is_sound": report.is_sound})
    else:
        for finding in report.findings:
            style = "green" if finding.mended else "red"
            terminal.out().print(terminal.safe(f"{finding.code}: {finding.sentence}"), style=style)
        for note in report.notes:
            terminal.out().print(terminal.safe(note), style="dim")
        counts = terminal.count(report.documents, "document"), terminal.count(report.passages, "passage")
        said = "all is right" if report.is_sound else "not all is right"
        terminal.out().print(f"{counts[0]}, {counts[1]}: {said}")
    raise typer.Exit(terminal.DONE if report.is_sound else terminal.FAILED)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write; an older one is replaced.")],
    as_json: Json = False,
) -> None:
    """Write the whole installation into one file, while it is in use: documents, bases, settings, keys."""
    from app import keep

    assistant = opened()
    home = assistant.settings.home
    beside = keep.carried(home)
    with terminal.bars("files", 1) as bars:
        done = assistant.corpus.backup(file, beside, bars.stage(file.name))
        bars.next()
    assistant.corpus.close()
    secrets = keep.secrets(home, beside)
    if as_json:
        terminal.print_json(terminal.plain(done) | {"path": str(done.path), "secrets": list(secrets)})
        return
    size = f"{done.num_bytes / 1e6:,.1f} MB"
    documents, files = terminal.count(done.num_documents, "document"), terminal.count(done.num_files, "file")
    terminal.out().print(terminal.safe(f"{done.path}: {documents}, {files}, {size}, read back and found whole"))
    if secrets:
        terminal.say(f"It holds what only you may read ({', '.join(secrets)}): keep it as you keep a password.")
    for document_id in done.left_out:
        terminal.say(f"The original file of {document_id} was not there to be saved; its text is: `readonce check`.")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `readonce backup` wrote.")],
    into: Annotated[Path | None, typer.Option("--into", help="The home to make; READONCE_HOME where left out.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Give up what is in that home.")] = False,
    as_json: Json = False,
) -> None:
    """Make a home what it was when a backup was made: all of it, or nothing."""
    from app.power import Power
    from ingest.restore import restore as put_back

    settings = Settings.load(home=into)
    if settings.engine_url is None and Power(settings).status().running:
        raise Problem(
            "home_in_use",
            f"An engine runs for {settings.home}: stop it with `readonce engine --stop`, then restore again.",
        )
    with terminal.bars("files", 1) as bars:
        done = put_back(file, settings.home, replace=replace, progress=bars.stage(file.name))
        bars.next()
    if as_json:
        terminal.print_json(terminal.plain(done) | {"home": str(done.home)})
        return
    documents, files = terminal.count(done.num_documents, "document"), terminal.count(done.num_files, "file")
    terminal.out().print(terminal.safe(f"{done.home}: {documents}, {files}, as of {done.made_at}"))
    if into is not None:
        terminal.say(f"Set READONCE_HOME={done.home} to use it; `readonce check` looks whether all is right.")
