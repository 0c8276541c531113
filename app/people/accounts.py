"""Decides who there is and who gets in: accounts, groups, one-time links, sessions that end.

An account begins without a password. Its one-time link sets the first one, and after a reset the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update

from app.people import attempts, records
from app.people.audit import NOBODY, note
from app.people.passwords import digest, hashed, matches, new_secret
from app.people.rights import Person
from app.problem import Problem

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from app.people.records import Records

FIRST_ADMIN = "admin"
PASSWORD = "password"
LINK_S = 72 * 3600.0

_NAME = re.compile(r"[\w][\w.@+-]{0,63}")


@dataclass(frozen=True)
class Account:
    """A person as those see them who manage people.

    Attributes:
        origin: "password", or the one service that vouches for them: no other can, whatever name it tells.
        waits: True until the password is set.
    """

    person: Person
    origin: str
    waits: bool


class People:
    """Accounts and groups. Everything blocks, and what takes a password on purpose: call it in a thread."""

    def __init__(self, kept: Records) -> None:
        self._records = kept

    # -- looking

    def accounts(self) -> tuple[Account, ...]:
        with self._records.reading() as connection:
            rows = connection.execute(select(records.people).order_by(records.people.c.name)).all()
            return tuple(Account(_person(connection, row.name), row.origin, _waits(row)) for row in rows)

    def any(self) -> bool:
        query = select(records.people.c.name).limit(1)
        return self._records.remembered("any", lambda connection: connection.execute(query).first() is not None)

    def find(self, name: str) -> Person:
        """The person, disabled or not.

        Raises:
            Problem: `not_found`.
        """
        folded = name.casefold()
        return self._records.remembered(("person", folded), lambda connection: _person(connection, folded))

    def in_session(self, name: str, session: int) -> Person | None:
        """Who `name` is, while the session that began as `session` goes on; None once it was ended."""

        def read(connection: Connection) -> Person | None:
            row = connection.execute(select(records.people).where(records.people.c.name == name)).first()
            return _person(connection, name) if row and not row.disabled and row.session == session else None

        return self._records.remembered(("session", name, session), read)

    def sessions(self) -> frozenset[tuple[str, int]]:
        """The name and the number of each session that goes on."""
        table = records.people
        query = select(table.c.name, table.c.session).where(~table.c.disabled)

        def read(connection: Connection) -> frozenset[tuple[str, int]]:
            return frozenset((row.name, row.session) for row in connection.execute(query))

        return self._records.remembered("sessions", read)

    # -- changing

    def add(
        self, actor: Person, name: str, *, admin: bool = False, groups: Sequence[str] = (), origin: str = PASSWORD
    ) -> str | None:
        """Makes an account; returns the secret of its one-time link, which is kept nowhere.

        Args:
            origin: A service that vouches for the person (`github`, `header`); None is returned then.

        Raises:
            Problem: `bad_name`, `person_exists`.
        """
        name = _checked_name(name)
        with self._records.transaction() as connection:
            if _exists(connection, name):
                raise Problem("person_exists", f'There is a person "{name}" already; `reset` gives a new link.')
            self._insert(connection, name, admin, origin)
            note(connection, self._records.clock(), actor.name, "person_added", name, "admin" if admin else "")
            for group in groups:
                self._join(connection, actor, group, name)
            return self._link(connection, name) if origin == PASSWORD else None

    def welcome(self, name: str, origin: str) -> Person | None:
        """Who logs in by a service that vouches for them: the account is made where it is missing.

        None where the account was disabled, or where the name is another's: one with a password, or of another service.

        Raises:
            Problem: `bad_name`.
        """
        name = _checked_name(name)
        table = records.people
        with self._records.transaction() as connection:
            if not _exists(connection, name):
                self._insert(connection, name, admin=False, origin=origin)
                note(connection, self._records.clock(), name, "person_added", name, f"by {origin}")
            row = connection.execute(select(table).where(table.c.name == name)).one()
            welcome = row.origin == origin and not row.disabled
            who, deed = (name, "login") if welcome else (NOBODY, "login_refused")
            note(connection, self._records.clock(), who, deed, name, f"by {origin}")
            return _person(connection, name) if welcome else None

    def first_admin(self) -> str | None:
        """The secret of a link for the first admin, until one has set a password; None from then on.

        Each call makes the link before it useless.
        """
        with self._records.transaction() as connection:
            table = records.people
            admins = connection.execute(select(table).where(table.c.admin & ~table.c.disabled)).all()
            if not all(_waits(row) for row in admins):
                return None
            name = min((row.name for row in admins), default=FIRST_ADMIN)
            if not admins:
                self._insert(connection, name, admin=True, origin=PASSWORD)
                note(connection, self._records.clock(), NOBODY, "person_added", name, "first admin")
            return self._link(connection, name)

    def reset(self, actor: Person, name: str) -> str:
        """Takes the password away and ends all sessions; returns the secret of a new one-time link.

        Raises:
            Problem: `not_found`.
        """
        with self._records.transaction() as connection:
            person = _person(connection, name.casefold())
            self._change(connection, person.name, password_hash=None, disabled=False, origin=PASSWORD)
            connection.execute(delete(records.attempts).where(records.attempts.c.subject == f"name {person.name}"))
            note(connection, self._records.clock(), actor.name, "person_reset", person.name)
            return self._link(connection, person.name)

    def disable(self, actor: Person, name: str) -> None:
        """Ends all sessions, keys and links of the person, who gets in no more; what they own stays theirs.

        Raises:
            Problem: `not_found`, `last_admin`.
        """
        with self._records.transaction() as connection:
            person = _person(connection, name.casefold())
            table = records.people
            others = table.c.admin & ~table.c.disabled & (table.c.name != person.name)
            if person.admin and connection.execute(select(table.c.name).where(others)).first() is None:
                raise Problem("last_admin", f"{person.name} is the only admin; make another one first.")
            self._change(connection, person.name, disabled=True, password_hash=None)
            connection.execute(delete(records.links).where(records.links.c.person == person.name))
            connection.execute(delete(records.keys).where(records.keys.c.person == person.name))
            note(connection, self._records.clock(), actor.name, "person_disabled", person.name)

    def set_admin(self, actor: Person, name: str, admin: bool) -> None:
        """Changes the role, which ends all sessions.

        Raises:
            Problem: `not_found`.
        """
        with self._records.transaction() as connection:
            person = _person(connection, name.casefold())
            self._change(connection, person.name, admin=admin)
            note(connection, self._records.clock(), actor.name, "person_admin", person.name, "yes" if admin else "no")

    def end_sessions(self, name: str) -> None:
        """All of them, on every device, as a logout does."""
        with self._records.transaction() as connection:
            person = _person(connection, name)
            self._change(connection, person.name)
            note(connection, self._records.clock(), person.name, "logout", person.name)

    def join(self, actor: Person, group: str, name: str) -> None:
        """Puts a person into a group, which is made where it is missing.

        Raises:
            Problem: `bad_name`, `not_found`.
        """
        with self._records.transaction() as connection:
            self._join(connection, actor, group, _person(connection, name.casefold()).name)

    def leave(self, actor: Person, group: str, name: str) -> None:
        """Takes a person out of a group; holds at once."""
        table = records.team_members
        with self._records.transaction() as connection:
            connection.execute(delete(table).where(table.c.team == group, table.c.person == name.casefold()))
            note(connection, self._records.clock(), actor.name, "group_left", group, name.casefold())

    # -- getting in

    def log_in(self, name: str, password: str, address: str = "") -> Person | None:
        """The person whose password this is; None where it is not, whatever the reason.

        After `attempts.MOST_FAILURES` in `attempts.FAILURES_S` the name is refused for as long, with the right password
        too; an unknown name is treated, counted and timed like a known one.
        """
        name = name.casefold()
        now = self._records.clock()
        with self._records.transaction() as connection:
            tried = attempts.by_name(connection, name, now)
            found = connection.execute(select(records.people).where(records.people.c.name == name)).first()
            if tried >= attempts.MOST_FAILURES:
                note(connection, now, NOBODY, "login_limited", name, address)
                return None
            # Counted before the slow comparison: many guesses at once are not free.
            attempts.count_name(connection, name, now)
        right = matches(password, found.password_hash if found and not found.disabled else None)
        with self._records.transaction() as connection:
            if right:
                attempts.forget_name(connection, name)
            note(connection, now, name if right else NOBODY, "login" if right else "login_refused", name, address)
            return _person(connection, name) if right else None

    def whose_link(self, secret: str) -> str | None:
        """The name that a one-time link is for; None where it was used or has run out."""
        table = records.links
        with self._records.reading() as connection:
            row = connection.execute(select(table).where(table.c.digest == digest(secret))).first()
            return row.person if row is not None and row.ends_at > self._records.clock() else None

    def use_link(self, secret: str, password: str) -> str:
        """Sets the password; the link is used up and all sessions end. Returns the name.

        Raises:
            Problem: `bad_password` (the link stays), `link_used`.
        """
        made = hashed(password)
        table = records.links
        with self._records.transaction() as connection:
            row = connection.execute(select(table).where(table.c.digest == digest(secret))).first()
            if row is None or row.ends_at <= self._records.clock():
                raise Problem("link_used", "This link was used or has run out; ask for a new one.")
            connection.execute(delete(table).where(table.c.person == row.person))
            self._change(connection, row.person, password_hash=made)
            note(connection, self._records.clock(), row.person, "password_set", row.person)
            return str(row.person)

    # -- inside a transaction

    def _insert(self, connection: Connection, name: str, admin: bool, origin: str) -> None:
        values = {"name": name, "admin": admin, "origin": origin, "disabled": False, "session": 1}
        connection.execute(insert(records.people).values(values))

    def _change(self, connection: Connection, name: str, **values: object) -> None:
        table = records.people
        connection.execute(update(table).where(table.c.name == name).values(session=table.c.session + 1, **values))

    def _link(self, connection: Connection, name: str) -> str:
        secret = new_secret()
        connection.execute(delete(records.links).where(records.links.c.person == name))
        ends_at = self._records.clock() + LINK_S
        connection.execute(insert(records.links).values(digest=digest(secret), person=name, ends_at=ends_at))
        return secret

    def _join(self, connection: Connection, actor: Person, group: str, name: str) -> None:
        group = _checked_name(group)
        table = records.team_members
        if connection.execute(select(records.teams).where(records.teams.c.name == group)).first() is None:
            connection.execute(insert(records.teams).values(name=group))
        if connection.execute(select(table).where(table.c.team == group, table.c.person == name)).first() is None:
            connection.execute(insert(table).values(team=group, person=name))
            note(connection, self._records.clock(), actor.name, "group_joined", group, name)


def _checked_name(name: str) -> str:
    folded = name.strip().casefold()
    if not _NAME.fullmatch(folded):
        raise Problem(
            "bad_name", f"{name!r} is no name: use up to 64 letters, digits and . _ @ + - without blanks.", usage=True
        )
    return folded


def _waits(row: Row[Any]) -> bool:
    return row.origin == PASSWORD and row.password_hash is None and not row.disabled


def _exists(connection: Connection, name: str) -> bool:
    return connection.execute(select(records.people.c.name).where(records.people.c.name == name)).first() is not None


def _person(connection: Connection, name: str) -> Person:
    row = connection.execute(select(records.people).where(records.people.c.name == name)).first()
    if row is None:
        raise Problem("not_found", f'There is no person "{name}"; `readonce people list` shows who there is.')
    table = records.team_members
    groups = connection.execute(select(table.c.team).where(table.c.person == name)).scalars()
    return Person(row.name, row.admin, row.disabled, row.session, frozenset(groups))
