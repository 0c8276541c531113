"""Decides how an owner shares a knowledge base in the browser: roles of people and groups, everybody or not."""

from __future__ import annotations

from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.browse.receiving import fields
from app.browse.visit import Visit
from app.people.rights import ROLES, Base, Role, role_in
from app.problem import Problem


async def sharing(visit: Visit) -> Response:
    base = await _owned(visit)
    return await _page(visit, base)


async def change(visit: Visit) -> Response:
    """One change of one form; what is refused is told above the form, which keeps what was there."""
    base = await _owned(visit)
    form = await fields(visit)
    library, person = visit.member.library, visit.member.person
    whom = {kind: form[kind] for kind in ("person", "group") if form.get(kind)}
    deed = form.get("deed")
    role: Role = next((role for role in ROLES if role == form.get("role")), "reader")
    public = deed in ("publish", "hide")
    if deed not in ("give", "take", "publish", "hide") or (not public and len(whom) != 1):
        raise Problem("bad_request", visit.say("went_wrong"))
    if deed in ("give", "publish"):
        work = partial(library.share, person, base.name, role=role, **({} if public else whom))
    else:
        work = partial(library.unshare, person, base.name, **({} if public else whom))
    try:
        await run_in_threadpool(work)
    except Problem as problem:
        return await _page(visit, base, problem.message)
    still = next((each for each in visit.member.bases() if each.name == base.name), None)
    if still is None or role_in(still, person) != "owner":
        return visit.go("documents")  # who gave their own role away
    return visit.go("documents", base.name, "sharing")


async def _page(visit: Visit, base: Base, problem: str = "") -> Response:
    return await visit.page("sharing.html", 422 if problem else 200, base=base, roles=ROLES, problem=problem)


async def _owned(visit: Visit) -> Base:
    """Raises:
    Problem: `not_found`, `not_allowed`.
    """
    require = visit.member.library.require
    return await run_in_threadpool(require, visit.member.person, visit.part("kb"), "owner")
