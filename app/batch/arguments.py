"""Decides what `readonce batch` can be told beside the filters that `ask` has too, and how its help says it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_COLUMNS = "Columns of the file, by name or by number from 1 (guessed where not given, and said)"
_ENDING = "When something goes wrong"

Questions = Annotated[Path, typer.Argument(metavar="FILE", help="jsonl, csv, tsv, xlsx, txt, or OpenAI's batch.")]
Out = Annotated[
    Path | None, typer.Option("-o", "--out", help="Where the answers go; default: FILE-answers beside the file.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say what it will cost and how long it takes, and ask nothing; the engine is started, whose cache counts,"
        " and its speed measured.",
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema", exists=True, dir_okay=False, help="A JSON schema that answers hold to; a column a property."
    ),
]
SystemFile = Annotated[
    Path | None,
    typer.Option(
        "--system", exists=True, dir_okay=False, help="Your instructions to the model, in place of readonce's."
    ),
]
ReportFile = Annotated[Path | None, typer.Option("--report", help="A report too: FILE.md or FILE.html.")]
Deadline = Annotated[
    str | None, typer.Option(metavar="TIME", help="When answers are wanted: 14:00, '2026-12-01 14:00', '90 min'.")
]
Wave = Annotated[
    int | None,
    typer.Option(
        min=1, help="Documents read, where they fit, before the questions on any of them begin; default: 1, on a GPU 8."
    ),
]
AtOnce = Annotated[int | None, typer.Option(min=1, help="Answers at once; default: as the engine's size.")]


QuestionColumns = Annotated[
    list[str] | None,
    typer.Option("--question-column", metavar="COLUMN", rich_help_panel=_COLUMNS, help="Questions; may be repeated."),
]
DocumentColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=_COLUMNS, help="Documents: ids, file names, titles; empty: search."),
]
KbColumn = Annotated[str | None, typer.Option(metavar="COLUMN", rich_help_panel=_COLUMNS, help="Knowledge bases.")]
IdColumn = Annotated[str | None, typer.Option(metavar="COLUMN", rich_help_panel=_COLUMNS, help="Ids of the questions.")]
FollowUpColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=_COLUMNS, help="Ids of the questions that these go on from."),
]
DeadlineColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=_COLUMNS, help="When each answer is wanted; else as --deadline."),
]
FilterColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--filter-column",
        metavar="COLUMN[=KIND]",
        rich_help_panel=_COLUMNS,
        help="What narrows a row's search, by pages, tags, since or until: its name says which, or KIND. Never "
        "guessed; may be repeated.",
    ),
]

Resume = Annotated[bool, typer.Option("--resume", rich_help_panel=_ENDING, help="Go on with a batch that was stopped.")]
Timeout = Annotated[
    float | None, typer.Option(min=0.001, rich_help_panel=_ENDING, help="Seconds that one answer may take.")
]
Retries = Annotated[
    int, typer.Option(min=0, rich_help_panel=_ENDING, help="How often it is tried again where the engine failed.")
]
MaxFailures = Annotated[
    int | None, typer.Option(min=0, rich_help_panel=_ENDING, help="Stop where more rows failed than this.")
]
