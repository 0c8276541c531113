"""Decides who may do what in a knowledge base: reader, contributor, owner; by name, by group, or as it is public.

Nothing here is stored or looked up: the same person and the same base give the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from app.problem import Problem

Role = Literal["reader", "contributor", "owner"]
Visibility = Literal["private", "shared", "public"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most: each may do what those before it may."""


@dataclass(frozen=True)
class Person:
    """Somebody who asks.

    Attributes:
        name: As they log in; unique, in lower case.
        admin: Manages people, and owns the bases that have no owner. Reads nobody's base for being one.
        session: Another number after each end of all sessions.
        everything: The owner of this machine (its command line, or a page without login): owns every base.
    """

    name: str
    admin: bool = False
    disabled: bool = False
    session: int = 0
    groups: frozenset[str] = frozenset()
    everything: bool = False


OF_THIS_MACHINE = Person("this machine's owner", admin=True, everything=True)
"""Who needs no account: whoever can run the command line can read the files themselves."""


@dataclass(frozen=True)
class Base:
    """A knowledge base as rights see it: who was given which role in it. Its documents are kept elsewhere."""

    name: str
    public: bool = False
    people: tuple[tuple[str, Role], ...] = ()
    groups: tuple[tuple[str, Role], ...] = ()

    @property
    def owners(self) -> tuple[str, ...]:
        """People and groups that own it, by name."""
        return tuple(name for name, role in (*self.people, *self.groups) if role == "owner")

    @property
    def visibility(self) -> Visibility:
        if self.public:
            return "public"
        return "shared" if len(self.people) + len(self.groups) > 1 else "private"


def role_in(base: Base, person: Person) -> Role | None:
    """The most that `person` may do in `base`; None: they are not to know that it is there."""
    if person.disabled:
        return None
    if person.everything:
        return "owner"
    found = [role for name, role in base.people if name == person.name]
    found += [role for group, role in base.groups if group in person.groups]
    if base.public:
        found.append("reader")
    if person.admin and not base.owners:
        found.append("owner")
    return max(found, key=ROLES.index, default=None)


def suffices(role: Role | None, wanted: Role) -> bool:
    return role is not None and ROLES.index(role) >= ROLES.index(wanted)


def base_name(name: str) -> str:
    """`name`, where a knowledge base may bear it.

    Raises:
        Problem: `bad_kb`.
    """
    if not name.strip() or "/" in name or not name.isprintable():
        raise Problem("bad_kb", f"{name!r} is no name of a knowledge base; use letters, digits and blanks.", usage=True)
    return name


def no_such_base(name: str) -> Problem:
    """What is said of a base that is not there, and word for word of one that may not be seen."""
    return Problem(
        "not_found", f'There is no knowledge base "{name}" that you can read; ask its owner to share it with you.'
    )
