"""Decides what those who manage this place see of it: how much is reused, how fast answers begin, who is here.

Questions' words are nobody's but who asked: a slow one is shown by its figures.
"""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.browse.audit_words import actor, deed, detail
from app.browse.visit import Visit
from app.people.audit import lines
from app.problem import Problem
from app.times import TIMES
from app.words import seconds

MOST_SLOW = 10
MOST_LINES = 30


async def admin(visit: Visit) -> Response:
    if not visit.member.person.admin:
        raise Problem("not_found", visit.say("nothing_here"))
    view = await run_in_threadpool(visit.place.glance.view, visit.member.assistant)
    quantiles = [TIMES.first_word_ms(share) for share in (0.5, 0.95)]
    return await visit.page(
        "admin.html",
        view=view,
        state=visit.place.host.sentence(visit.language),
        quantiles=[None if each is None else seconds(each) for each in quantiles],
        num_asked=len(TIMES.all()),
        slow=TIMES.slowest(MOST_SLOW),
        here=present(),
        audit=(await run_in_threadpool(lines, visit.place.desk.kept, MOST_LINES))[::-1],
        seconds=seconds,
        moment=moment,
        actor=actor,
        deed=deed,
        detail=detail,
    )


def moment(at: float) -> str:
    """Of Unix time in seconds: "2027-01-15 08:00"."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def present() -> tuple[str, ...]:
    """The names of those whose chat is open now; "-" for one without a login."""
    from chainlit.session import ws_sessions_sid

    users = (session.user for session in list(ws_sessions_sid.values()))
    return tuple(sorted({user.identifier if user is not None else "-" for user in users}))
