"""Decides how many wrong logins a name and an address have, before no more is heard of them for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select

from app.people import records

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.people.records import Records

# Ten guesses an hour at one name find no password of twelve characters; a person who mistypes waits a little.
MOST_FAILURES = 5
MOST_FAILURES_AN_ADDRESS = 50
FAILURES_S = 30 * 60.0


class Addresses:
    """Where failed logins came from. Blocks: call it in a thread."""

    def __init__(self, kept: Records) -> None:
        self._records = kept

    def may_try(self, address: str) -> bool:
        """Whether so few logins from there have failed that one more is heard."""
        with self._records.reading() as connection:
            return _failures(connection, f"from {address}", self._records.clock()) < MOST_FAILURES_AN_ADDRESS

    def failed(self, address: str) -> None:
        now = self._records.clock()
        table = records.attempts
        with self._records.transaction() as connection:
            connection.execute(delete(table).where(table.c.at <= now - FAILURES_S))
            connection.execute(insert(table).values(subject=f"from {address}", at=now))


def by_name(connection: Connection, name: str, now: float) -> int:
    """Failed logins with this name in the last `FAILURES_S`, whether there is such a person or not."""
    return _failures(connection, f"name {name}", now)


def count_name(connection: Connection, name: str, now: float) -> None:
    connection.execute(insert(records.attempts).values(subject=f"name {name}", at=now))


def forget_name(connection: Connection, name: str) -> None:
    connection.execute(delete(records.attempts).where(records.attempts.c.subject == f"name {name}"))


def _failures(connection: Connection, subject: str, now: float) -> int:
    table = records.attempts
    counted = select(func.count()).select_from(table)
    return connection.execute(counted.where(table.c.subject == subject, table.c.at > now - FAILURES_S)).scalar_one()
