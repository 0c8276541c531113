"""Decides what filters in words mean, beside a command or in a row: pages, tags, and days when documents were added."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
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

KINDS = ("pages", "tags", "since", "until")
"""What a search can be narrowed by."""

_NAMES = {
    "pages": ("pages", "page", "sheet", "sheets", "页", "页码", "頁", "頁碼"),
    "tags": ("tags", "tag", "label", "labels", "标签", "標籤"),
    "since": ("since", "from", "added since", "起", "自"),
    "until": ("until", "to", "added until", "止", "至"),
}
_RANGE = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9})?)?")
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T]00:00(?::00(?:\.0+)?)?)?")
_BETWEEN_TAGS = re.compile(r"[,;\n]")
_LAST_PAGE = 10**9


def filters(pages: str | None, tags: Sequence[str] | None, since: str | None, until: str | None) -> Filters:
    """What was written beside `--pages`, `--tag`, `--since` and `--until`.

    Raises:
        Problem: `bad_filter`.
        IngestError: `bad_tag`.
    """
    return _filters(pages or "", tags or (), since, until, "--")


def filters_in(words: Iterable[tuple[str, str]]) -> Filters:
    """What a row says: (one of `KINDS`, its words); several tags stand between commas, and a later pair replaces one
    before it.

    Raises:
        Problem: `bad_filter`, `unknown_filter`.
        IngestError: `bad_tag`.
    """
    given = {kind: _plain(said) for kind, said in words}
    unknown = sorted(given.keys() - set(KINDS))
    if unknown:
        words_for = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise Problem("unknown_filter", f"A search can't be narrowed by {', '.join(unknown)}, but by {words_for}.")
    tags = [tag.strip() for tag in _BETWEEN_TAGS.split(given.get("tags", "")) if tag.strip()]
    return _filters(given.get("pages", ""), tags, given.get("since") or None, given.get("until") or None, "")


def kind_named(name: str) -> str | None:
    """Which of `KINDS` a column's name means; None where none."""
    plain = re.sub(r"[_\-\s]+", " ", _plain(name).casefold()).strip(" :*")
    return next((kind for kind, names in _NAMES.items() if plain in names), None)


def _filters(pages: str, tags: Sequence[str], since: str | None, until: str | None, before: str) -> Filters:
    from ingest.scope import Filters
    from ingest.tags import tag

    first, last = _day(f"{before}since", since), _day(f"{before}until", until)
    if first is not None and last is not None and first > last:
        raise Problem("bad_filter", f"{before}since {first} is after {before}until {last}: no day is left.", usage=True)
    return Filters(_ranges(f"{before}pages", pages), first, last, tuple(tag(words) for words in tags))


def _ranges(option: str, words: str) -> tuple[PageRange, ...]:
    """ "3-10,12,40-": from a page on where no last one is named."""
    ranges = []
    for part in filter(None, (part.strip() for part in words.split(","))):
        match = _RANGE.fullmatch(part)
        first = int(match.group(1)) if match else 0
        last = first if match and "-" not in part else int(match.group(2) or _LAST_PAGE) if match else 0
        if not 1 <= first <= last:
            raise Problem("bad_filter", f"{option} {words!r}: write pages as 7, 3-10 or 40-, with commas.", usage=True)
        ranges.append((first, last))
    return tuple(ranges)


def _day(option: str, words: str | None) -> date | None:
    if words is None:
        return None
    # A spreadsheet has a time of day in each of its days.
    match = _DAY.fullmatch(words.strip())
    try:
        return date.fromisoformat(match.group(1) if match else words)
    except ValueError:
        raise Problem("bad_filter", f"{option} {words!r} is no day: write it as 2026-01-31.", usage=True) from None


def _plain(words: str) -> str:
    """Digits, commas and dashes as keyboards of other languages write them."""
    return re.sub(r"[\u2010-\u2015]", "-", unicodedata.normalize("NFKC", words)).replace("、", ",").strip()
