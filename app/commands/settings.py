"""Decides how `readonce settings` speaks: a row for each setting, or the table of the documentation."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app import terminal
from app.commands.documents import Jsonl


def settings(
    jsonl: Jsonl = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="A table in Markdown, of names and defaults alone.")
    ] = False,
) -> None:
    """List every setting: its value, its default, where the value came from, and what it does."""
    from app.setting_table import markdown as table_in_markdown
    from app.setting_table import rows
    from app.settings import Settings, toml_file

    if markdown:
        sys.stdout.write(table_in_markdown())
        return
    listed = list(rows(Settings.load()))
    if jsonl:
        for row in listed:
            terminal.print_json(row)
        return
    shown = terminal.table("setting", "value", "default", "from", "meaning")
    for row in listed:
        place = "" if row.place == "default" else row.place
        default = "" if row.value == row.default else row.default
        takes = "" if row.takes == "text" else f" ({row.takes})"
        cells = row.name, row.value, default, place, row.meaning + takes
        shown.add_row(*(terminal.safe(cell) for cell in cells), style="bold" if place else None)
    terminal.out().print(shown)
    terminal.say(f"Set a variable, or its name in lower case without READONCE_ in {toml_file({})}.")
