"""Decides which knowledge bases there are and who may read them: the one place that every way in asks first.

A base that nobody may see is answered word for word like one that is not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from app.people import records
from app.people.audit import note
from app.people.rights import Base, Person, Role, base_name, no_such_base, role_in, suffices
from app.problem import Problem

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from app.people.records import Records

DEFAULT = "default"


class Library:
    """Knowledge bases and their members. Everything blocks: call it in a thread.

    Args:
        filled: Names of the bases that hold documents. One that was never made or shared here has no owner.
    """

    def __init__(self, kept: Records, filled: Callable[[], Sequence[str]] = tuple) -> None:
        self._records = kept
        self._filled = filled

    @property
    def kept(self) -> Records:
        """Where it all is written down."""
        return self._records

    # -- looking

    def bases(self) -> tuple[Base, ...]:
        """All of them, by name; for administration. What a person may see is `readable`."""
        names = frozenset((DEFAULT, *self._filled()))
        return self._records.remembered(("bases", names), lambda connection: _stored(connection, names))

    def readable(self, person: Person) -> tuple[Base, ...]:
        """The bases that `person` may read, by name."""
        return tuple(base for base in self.bases() if role_in(base, person) is not None)

    def readable_names(self, person: Person) -> frozenset[str]:
        """WHICH BASES MAY THIS PERSON READ: chat, search, API, citations, files and suggestions all start here."""
        return frozenset(base.name for base in self.readable(person))

    def require(self, person: Person, kb: str, wanted: Role = "reader") -> Base:
        """The base, where `person` may do in it what a `wanted` may.

        Raises:
            Problem: `not_found` where they may not read it or it is not there; `not_allowed` where they may do less.
        """
        base = next((base for base in self.readable(person) if base.name == kb), None)
        if base is None:
            raise no_such_base(kb)
        role = role_in(base, person)
        if not suffices(role, wanted):
            raise Problem(
                "not_allowed", f'You are {role} of "{kb}" and this needs a role of {wanted}; ask one of its owners.'
            )
        return base

    # -- changing

    def create(self, actor: Person, name: str, owner: str | None = None) -> Base:
        """Makes a base that only `owner` sees; None: nobody owns it but those who manage this place.

        Raises:
            Problem: `bad_kb`, `kb_exists`, `not_found` (no such person).
        """
        base_name(name)
        if name in {base.name for base in self.bases()}:
            raise Problem("kb_exists", f'There is a knowledge base "{name}" already; choose another name.', usage=True)
        with self._records.transaction() as connection:
            _register(connection, name)
            if owner is not None:
                _grant(connection, records.person_roles, name, owner, "owner")
            note(connection, self._records.clock(), actor.name, "kb_created", name, f"owner {owner or 'none'}")
        return next(base for base in self.bases() if base.name == name)

    def own(self, person: Person) -> Base:
        """The base that `person` alone has, made where it is missing: where their files go when they name none."""
        mine = {base.name: base for base in self.readable(person) if person.name in base.owners and not base.public}
        taken = {base.name for base in self.bases()} - mine.keys()
        name = next(name for name in _names_like(person.name) if name not in taken)
        return mine[name] if name in mine else self.create(person, name, person.name)

    def share(
        self, actor: Person, kb: str, *, person: str | None = None, group: str | None = None, role: Role = "reader"
    ) -> None:
        """Gives a person or a group a role in `kb`, in place of the one they had; with neither it is made public.

        Raises:
            Problem: `not_found`, `not_allowed`, `last_owner`.
        """
        person, group = _folded(person), _folded(group)
        with self._sharing(actor, kb, "kb_shared", f"{role} {_whom(person, group)}") as connection:
            if person is not None:
                _grant(connection, records.person_roles, kb, person, role)
            if group is not None:
                _grant(connection, records.team_roles, kb, group, role)
            if person is None and group is None:
                _publish(connection, kb, True)

    def unshare(self, actor: Person, kb: str, *, person: str | None = None, group: str | None = None) -> None:
        """Takes a person's or a group's role away; with neither the base is public no longer. Holds at once.

        Raises:
            Problem: `not_found`, `not_allowed`, `last_owner`.
        """
        person, group = _folded(person), _folded(group)
        with self._sharing(actor, kb, "kb_unshared", _whom(person, group)) as connection:
            for table, name in ((records.person_roles, person), (records.team_roles, group)):
                if name is not None:
                    column = table.c.person if table is records.person_roles else table.c.team
                    connection.execute(delete(table).where(table.c.kb == kb, column == name))
            if person is None and group is None:
                _publish(connection, kb, False)

    @contextmanager
    def _sharing(self, actor: Person, kb: str, what: str, detail: str) -> Iterator[Connection]:
        """The transaction in which an owner changes who may do what: noted, and never left without an owner."""
        self.require(actor, kb, "owner")
        with self._records.transaction() as connection:
            _register(connection, kb)
            owned = bool(_stored(connection, {kb}, only=kb)[0].owners)
            yield connection
            _refuse_orphan(connection, kb, owned)
            note(connection, self._records.clock(), actor.name, what, kb, detail)


def _whom(person: str | None, group: str | None) -> str:
    return ", ".join(filter(None, (person, group and f"group {group}"))) or "everybody"


def _publish(connection: Connection, kb: str, public: bool) -> None:
    connection.execute(update(records.bases).where(records.bases.c.name == kb).values(public=public))


def _folded(name: str | None) -> str | None:
    return None if name is None else name.strip().casefold()


def _names_like(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name} {number}" for number in count(2))


def _stored(connection: Connection, names: Set[str], only: str | None = None) -> tuple[Base, ...]:
    public = {row.name: row.public for row in connection.execute(select(records.bases))}
    people: dict[str, list[tuple[str, Role]]] = defaultdict(list)
    groups: dict[str, list[tuple[str, Role]]] = defaultdict(list)
    for row in connection.execute(select(records.person_roles).order_by(records.person_roles.c.person)):
        people[row.kb].append((row.person, row.role))
    for row in connection.execute(select(records.team_roles).order_by(records.team_roles.c.team)):
        groups[row.kb].append((row.team, row.role))
    listed = sorted(names | public.keys()) if only is None else [only]
    return tuple(Base(name, public.get(name, False), tuple(people[name]), tuple(groups[name])) for name in listed)


def _register(connection: Connection, name: str) -> None:
    if connection.execute(select(records.bases.c.name).where(records.bases.c.name == name)).first() is None:
        connection.execute(insert(records.bases).values(name=name, public=False))


def _grant(connection: Connection, table: Table, kb: str, name: str, role: Role) -> None:
    to_person = table is records.person_roles
    whom = records.people if to_person else records.teams
    if connection.execute(select(whom.c.name).where(whom.c.name == name)).first() is None:
        what = "person" if to_person else "group"
        raise Problem("not_found", f'There is no {what} "{name}"; `readonce people list` shows who there is.')
    column = table.c.person if to_person else table.c.team
    connection.execute(delete(table).where(table.c.kb == kb, column == name))
    connection.execute(insert(table).values({"kb": kb, column.name: name, "role": role}))


def _refuse_orphan(connection: Connection, kb: str, owned: bool) -> None:
    if owned and not _stored(connection, {kb}, only=kb)[0].owners:
        raise Problem("last_owner", f'"{kb}" would be left without an owner; make somebody else owner first.')
