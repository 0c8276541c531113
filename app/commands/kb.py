"""Decides how the commands about knowledge bases speak: create, share, unshare, list. They only translate."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from app import terminal
from app.commands.documents import Jsonl
from app.commands.people import desk
from app.people.rights import ROLES, base_name

kb = typer.Typer(no_args_is_help=True, help="Knowledge bases: who owns them, and who may read and add.")

Base = Annotated[str, typer.Argument(metavar="KB", callback=base_name, help="The knowledge base.")]
With = Annotated[str | None, typer.Option("--with", metavar="NAME", help="A person.")]
WithGroup = Annotated[str | None, typer.Option("--with-group", metavar="GROUP", help="A group.")]
Public = Annotated[bool, typer.Option("--public", help="Everybody who can log in, as a reader.")]


@kb.command()
def create(
    name: Base,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Whose it is; left out: the admins'.")
    ] = None,
) -> None:
    """Make a knowledge base that its owner alone sees."""
    from app.people.rights import OF_THIS_MACHINE

    desk().library.create(OF_THIS_MACHINE, name, None if owner is None else owner.casefold())
    terminal.say(f"The knowledge base “{name}” is there; `readonce add FILE --kb {shlex.quote(name)}` fills it.")


@kb.command()
def share(
    name: Base,
    person: With = None,
    group: WithGroup = None,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="reader, contributor or owner.")] = "reader",
    public: Public = False,
) -> None:
    """Give a person, a group or everybody a role in a knowledge base."""
    from app.people.rights import OF_THIS_MACHINE

    known = next((each for each in ROLES if each == role), None)
    if known is None:
        raise typer.BadParameter(f"{role!r} is no role; use {', '.join(ROLES)}.")
    _check(person, group, public)
    desk().library.share(OF_THIS_MACHINE, name, person=person, group=group, role=known)
    role_words = "reader" if public else known
    terminal.say(f"{_whom(person, group)} may use “{name}” as {role_words} from now on.")


@kb.command()
def unshare(name: Base, person: With = None, group: WithGroup = None, public: Public = False) -> None:
    """Take a role away; it holds from the next question on."""
    from app.people.rights import OF_THIS_MACHINE

    _check(person, group, public)
    desk().library.unshare(OF_THIS_MACHINE, name, person=person, group=group)
    terminal.say(f"“{name}” is no longer shared with {_whom(person, group)}.")


def _whom(person: str | None, group: str | None) -> str:
    return " and ".join(filter(None, (person, group and f"the group {group}"))) or "everybody who can log in"


def _check(person: str | None, group: str | None, public: bool) -> None:
    if public == (person is not None or group is not None):
        raise typer.BadParameter("name somebody (--with, --with-group), or --public.")


@kb.command("list")
def list_(
    seen_by: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Those that this person sees.")] = None,
    jsonl: Jsonl = False,
) -> None:
    """List knowledge bases and who may do what in them."""
    from app.people.rights import OF_THIS_MACHINE, role_in

    at = desk()
    person = OF_THIS_MACHINE if seen_by is None else at.people.find(seen_by)
    shown = terminal.table("knowledge base", "seen by", "members")
    for base in at.library.readable(person):
        members = [f"{name} ({role})" for name, role in base.people]
        members += [f"group {name} ({role})" for name, role in base.groups]
        if jsonl:
            row = {"kb": base.name, "visibility": base.visibility, "people": dict(base.people)}
            terminal.print_json(row | {"groups": dict(base.groups), "role": role_in(base, person)})
        shown.add_row(terminal.safe(base.name), base.visibility, ", ".join(members) or "admins")
    if not jsonl:
        terminal.out().print(shown)
