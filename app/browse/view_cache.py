"""Decides what is shown of the engine's cache: whose documents are warm, and what reading the next would push out.

Of documents that the person may not read no more is told than that there are some.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.browse.push import Push, pushed_out
from app.browse.shelves import Row, row
from app.browse.visit import LATER_MS, Visit
from app.page.text import plain_title
from app.people.rights import role_in
from app.reader import parse_name
from ingest.document import IngestError

if TYPE_CHECKING:
    from engine.view import CacheView

MOST_NAMED = 2


@dataclass(frozen=True)
class Line:
    """A document, and what reading it now would do, in words."""

    row: Row
    cost: str
    owns: bool


async def cache(visit: Visit) -> Response:
    view = await run_in_threadpool(visit.place.glance.view, visit.member.assistant)
    lines = await run_in_threadpool(_lines, visit, view)
    again_ms = LATER_MS if any(line.row.condition.moves for line in lines) else 0
    return await visit.page("cache.html", view=view, lines=lines, again_ms=again_ms)


def _lines(visit: Visit, view: CacheView | None) -> list[Line]:
    owned = {base.name for base in visit.member.bases() if role_in(base, visit.member.person) == "owner"}
    documents = visit.member.documents()
    titles = {(document.kb, document.name): plain_title(document.title) for document in documents}
    lines = []
    for document in documents:
        try:
            shown = row(visit, document)
        except IngestError:
            continue  # removed while the list was made
        lines.append(Line(shown, _cost(visit, view, shown, titles), document.kb in owned))
    return sorted(lines, key=lambda line: -line.row.condition.warm)


def _cost(visit: Visit, view: CacheView | None, shown: Row, titles: dict[tuple[str, str], str]) -> str:
    if view is None or shown.condition.kind == "no_text":
        return ""
    missing = round(shown.document.tokens * (1 - shown.condition.warm))
    if missing <= 0:
        return visit.say("is_there")
    push = pushed_out(view, missing)
    if push is None:
        return ""
    if not push.fits:
        return visit.say("never_fits")
    return _pushes(visit, push, titles)


def _pushes(visit: Visit, push: Push, titles: dict[tuple[str, str], str]) -> str:
    if not push.tokens:
        return visit.say("pushes_nothing")
    if not push.prefixes:
        return visit.say("pushes_tokens", tokens=f"{push.tokens:,}")
    names = list(dict.fromkeys(_title(visit, prefix.name, titles) for prefix in push.prefixes))
    named = ("、" if visit.language == "zh" else ", ").join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        named = visit.say("and_more", names=named, count=len(names) - MOST_NAMED)
    return visit.say("pushes", names=named)


def _title(visit: Visit, name: str, titles: dict[tuple[str, str], str]) -> str:
    parsed = parse_name(name)
    title = titles.get(parsed[:2]) if parsed is not None else None
    return title or visit.say("of_others")
