"""Decides what the lists of documents show and take: search, what arrives, files that are sent, a new base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from app.browse import found, receiving
from app.browse.shelves import Shelf, shelf, shelves
from app.browse.visit import HEADERS, LATER_MS, SOON_MS, Visit
from app.people.library import DEFAULT
from app.problem import Problem

if TYPE_CHECKING:
    from app.browse.arrivals import Arrival

MOST_ROWS = 12


async def overview(visit: Visit) -> Response:
    """All bases that the person may read."""
    question = visit.query("q")
    hits = await run_in_threadpool(found.look, visit, question) if question else None
    listed = await run_in_threadpool(shelves, visit, MOST_ROWS)
    return await visit.page(
        "documents.html", shelves=listed, hits=hits, question=question, **await _moving(visit, listed, None)
    )


async def one_base(visit: Visit) -> Response:
    kb, question = visit.part("kb"), visit.query("q")
    listed = await run_in_threadpool(shelf, visit, kb)
    hits = await run_in_threadpool(found.look, visit, question, kb) if question else None
    notice = visit.say("deleted") if visit.query("done") == "deleted" else ""
    moving = await _moving(visit, [listed], kb)
    return await visit.page("base.html", shelf=listed, hits=hits, question=question, notice=notice, **moving)


async def add(visit: Visit) -> Response:
    """Files for a base. Whether they may is asked before the first byte of them is read."""
    kb = visit.part("kb")
    await run_in_threadpool(visit.member.library.require, visit.member.person, kb, "contributor")
    return await _taken(visit, kb)


async def add_own(visit: Visit) -> Response:
    """Files for a base of one's own; who sits at the machine owns the default one."""
    member = visit.member
    kb = DEFAULT if member.person.everything else (await run_in_threadpool(member.library.own, member.person)).name
    return await _taken(visit, kb)


async def _taken(visit: Visit, kb: str) -> Response:
    received = await receiving.files(visit)
    visit.place.arrivals.take(visit.place, visit.member, kb, received, visit.language)
    if visit.wants_json:
        return JSONResponse({"page": visit.link("documents", kb)}, headers=HEADERS)
    return visit.go("documents", kb)


async def make_base(visit: Visit) -> Response:
    """A base of the person's own. A name that is taken and one that can't be are told alike."""
    name = (await receiving.fields(visit)).get("name", "")
    person = visit.member.person
    try:
        await run_in_threadpool(visit.member.library.create, person, name, None if person.everything else person.name)
    except Problem as problem:
        if problem.code not in ("bad_kb", "kb_exists"):
            raise
        raise Problem("bad_kb", visit.say("bad_base", name=name)) from problem
    return visit.go("documents", name)


async def _moving(visit: Visit, listed: Sequence[Shelf], kb: str | None) -> dict[str, Any]:
    """What is on its way in, and when the page's script looks again; nothing of what was deleted since."""
    arrivals = await run_in_threadpool(_there_still, visit, visit.place.arrivals.of(visit.member.person.name, kb))
    in_a_second = any(one.state == "running" for one in arrivals)
    again_ms = SOON_MS if in_a_second else LATER_MS if any(one.moves for one in listed) else 0
    return {"arrivals": arrivals, "again_ms": again_ms}


def _there_still(visit: Visit, arrivals: Sequence[Arrival]) -> list[Arrival]:
    corpus = visit.member.assistant.corpus
    return [one for one in arrivals if one.doc_id is None or corpus.has(one.doc_id, one.kb)]
