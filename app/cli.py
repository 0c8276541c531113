"""Decides what the command `readonce` understands, and how each failure ends: one sentence and an exit code.

0 all done, 1 failed, 2 wrong usage, 3 some items failed. The commands themselves are in app/commands/.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

from app import terminal
from app.commands import batch as many
from app.commands import bench as benchmark
from app.commands import documents, engine, files, questions
from app.commands import fit as sizes
from app.commands import hold as holding
from app.commands import kb as bases
from app.commands import keep as keeping
from app.commands import people as members
from app.commands.settings import settings
from app.problem import tell
from app.settings import Settings

app = typer.Typer(
    name="readonce",
    help="Read once, ask many times: questions about long documents, answered with pages and a receipt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (
    files.add,
    documents.ls,
    documents.show,
    documents.rm,
    documents.tag,
    documents.search,
    documents.rebuild,
    files.extract,
):
    app.command(rich_help_panel="Documents")(command)
app.command(rich_help_panel="Home")(keeping.check)
app.command(rich_help_panel="Home")(keeping.backup)
app.command(rich_help_panel="Home")(keeping.restore)
app.command(rich_help_panel="Home")(settings)
app.add_typer(members.people, name="people", rich_help_panel="People")
app.add_typer(bases.kb, name="kb", rich_help_panel="People")
app.command(rich_help_panel="People")(members.audit)
app.command(rich_help_panel="Questions")(questions.ask)
app.command(rich_help_panel="Questions")(many.batch)
app.command(rich_help_panel="Questions")(questions.demo)
app.add_typer(questions.evaluate, name="eval", rich_help_panel="Questions")
app.command(rich_help_panel="Engine")(engine.serve)
app.command(rich_help_panel="Engine")(engine.status)
app.command(rich_help_panel="Engine")(holding.warm)
app.command(rich_help_panel="Engine")(holding.free)
app.command(rich_help_panel="Engine")(engine.engine)
app.command(rich_help_panel="Engine")(sizes.fit)
app.add_typer(benchmark.measuring, name="bench", rich_help_panel="Engine")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("readonce")
        except PackageNotFoundError:  # run from a checkout that is not installed
            number = "(not installed)"
        sys.stdout.write(f"readonce {number}\n")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Read once, ask many times: questions about long documents, answered with pages and a receipt."""
    for sentence in Settings.unknown_variables():
        terminal.say(sentence)


def main() -> None:
    """The entry point: runs a command; whatever the packages foresaw becomes one sentence and an exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    terminal.prepare_streams()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader (`head`) has gone; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(terminal.FAILED)
    except Exception as error:
        problem = tell(error)
        if problem is None:
            raise
        terminal.fail(problem)


def _terminated(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)  # as an exception: what is half done is undone on the way out


if __name__ == "__main__":
    main()
