"""Decides what is written down for good: who changed people, keys and rights, who logged in, and who was refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import insert, select

from app.people import records

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.people.records import Records

NOBODY = "-"


@dataclass(frozen=True)
class Line:
    """One thing that happened.

    Attributes:
        at: Unix time in seconds.
        who: A person's name, or "-" of somebody who had not logged in.
        what: A stable word: `login`, `login_refused`, `person_added`, `kb_shared` and the like.
        about: The person, base or key that it was done to.
    """

    at: float
    who: str
    what: str
    about: str
    detail: str = ""


def note(connection: Connection, at: float, who: str, what: str, about: str, detail: str = "") -> None:
    """Adds a line in the transaction of what it tells: neither is there without the other."""
    connection.execute(insert(records.audit).values(at=at, who=who, what=what, about=about, detail=detail))


def lines(kept: Records, most: int = 100) -> tuple[Line, ...]:
    """The newest `most` lines, oldest first."""
    table = records.audit
    columns = table.c.at, table.c.who, table.c.what, table.c.about, table.c.detail
    with kept.reading() as connection:
        rows = connection.execute(select(*columns).order_by(table.c.id.desc()).limit(most)).all()
    return tuple(Line(*row) for row in reversed(rows))
