"""Decides what the filters on a command line mean: pages, tags, and days on which documents were added."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from app.problem import Problem

if TYPE_CHECKING:
    from ingest.scope import Filters, PageRange

Pages = Annotated[str | None, typer.Option("--pages", metavar="3-10,12", help="On these sheets only, counted from 1.")]
WithTags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="In documents with this tag only; several: with all.")
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="2026-01-31", help="In documents added on this day or after (UTC).")
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="2026-01-31", help="In documents added on this day or before (UTC).")
]

_RANGE = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9})?)?")
_LAST_PAGE = 10**9


def filters(pages: str | None, tags: list[str] | None, since: str | None, until: str | None) -> Filters:
    """What was written beside `--pages`, `--tag`, `--since` and `--until`.

    Raises:
        Problem: `bad_filter`.
        IngestError: `bad_tag`.
    """
    from ingest.scope import Filters
    from ingest.tags import tag

    first, last = _day("--since", since), _day("--until", until)
    if first is not None and last is not None and first > last:
        raise Problem("bad_filter", f"--since {first} is after --until {last}: no day is left.", usage=True)
    return Filters(_ranges(pages or ""), first, last, tuple(tag(words) for words in tags or ()))


def _ranges(words: str) -> tuple[PageRange, ...]:
    """ "3-10,12,40-": from a page on where no last one is named."""
    ranges = []
    for part in filter(None, (part.strip() for part in words.split(","))):
        match = _RANGE.fullmatch(part)
        first = int(match.group(1)) if match else 0
        last = first if match and "-" not in part else int(match.group(2) or _LAST_PAGE) if match else 0
        if not 1 <= first <= last:
            raise Problem("bad_filter", f"--pages {words!r}: write pages as 7, 3-10 or 40-, with commas.", usage=True)
        ranges.append((first, last))
    return tuple(ranges)


def _day(option: str, words: str | None) -> date | None:
    if words is None:
        return None
    try:
        return date.fromisoformat(words)
    except ValueError:
        raise Problem("bad_filter", f"{option} {words!r} is no day: write it as 2026-01-31.", usage=True) from None
