"""Decides how programs get in: keys of a person, shown once, with that person's rights, gone at once when revoked."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from app.people import records
from app.people.audit import note
from app.people.passwords import digest, new_secret
from app.people.rights import Person
from app.problem import Problem

if TYPE_CHECKING:
    from app.people.accounts import People
    from app.people.records import Records

_BEGINS = "ro-"


@dataclass(frozen=True)
class Key:
    """What is known of a key; never the key itself.

    Attributes:
        made_at: Unix time in seconds.
    """

    id: str
    person: str
    label: str
    made_at: float


class ApiKeys:
    """All keys. Everything blocks: call it in a thread."""

    def __init__(self, kept: Records, people: People) -> None:
        self._records = kept
        self._people = people

    def make(self, actor: Person, name: str, label: str = "") -> tuple[Key, str]:
        """A new key of the person, and the words of it, which are kept nowhere.

        Raises:
            Problem: `not_found`, `disabled`.
        """
        person = self._people.find(name)
        if person.disabled:
            raise Problem("disabled", f"{person.name} is disabled; `readonce people reset {person.name}` lets them in.")
        words = f"{_BEGINS}{new_secret()}"
        key = Key(secrets.token_hex(4), person.name, label, self._records.clock())
        with self._records.transaction() as connection:
            connection.execute(
                insert(records.keys).values(
                    id=key.id, digest=digest(words), person=key.person, label=label, made_at=key.made_at
                )
            )
            note(connection, key.made_at, actor.name, "key_made", key.person, key.id)
        return key, words

    def list(self, name: str | None = None) -> tuple[Key, ...]:
        """All keys, or a person's, oldest first."""
        table = records.keys
        columns = table.c.id, table.c.person, table.c.label, table.c.made_at
        with self._records.reading() as connection:
            rows = connection.execute(select(*columns).order_by(table.c.made_at, table.c.id)).all()
        return tuple(Key(*row) for row in rows if name is None or row.person == name)

    def revoke(self, actor: Person, key_id: str) -> Key:
        """Ends a key; the next call with it is refused.

        Raises:
            Problem: `not_found`.
        """
        key = next((key for key in self.list() if key.id == key_id), None)
        if key is None:
            raise Problem("not_found", f'There is no key "{key_id}"; `readonce people keys` lists them.')
        with self._records.transaction() as connection:
            connection.execute(delete(records.keys).where(records.keys.c.id == key_id))
            note(connection, self._records.clock(), actor.name, "key_revoked", key.person, key.id)
        return key

    def whose(self, words: str) -> Person | None:
        """The person whose key this is, as they are now; None where it is none, or they are disabled."""
        table = records.keys
        with self._records.reading() as connection:
            name = connection.execute(select(table.c.person).where(table.c.digest == digest(words))).scalar()
        if name is None:
            return None
        person = self._people.find(name)
        return None if person.disabled else person
