"""Decides how the commands about people speak: people, audit. They only translate; who types them acts as admin."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from app import terminal
from app.commands.documents import Json, Jsonl
from app.settings import Settings

if TYPE_CHECKING:
    from app.people.deeds import Deeds
    from app.people.desk import Desk

people = typer.Typer(no_args_is_help=True, help="Who may log in: accounts, groups, API keys.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the person logs in with.")]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="The page's address in the link, as the person opens it.")
]
Group = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="A group to be in; several: in all.")]


def desk() -> Desk:
    from app.people.desk import Desk

    return Desk.open(Settings.load())


def deeds() -> Deeds:
    """What writes down what the command line does to documents.

    Raises:
        Problem: `people_unusable`: what can't be written down is not begun.
    """
    from app.people.deeds import Deeds
    from app.people.desk import records_of
    from app.people.rights import OF_THIS_MACHINE

    return Deeds(records_of(Settings.load()), OF_THIS_MACHINE.name, "command line")


@people.command()
def add(
    name: Name,
    admin: Annotated[bool, typer.Option("--admin", help="Manages people too.")] = False,
    group: Group = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="SERVICE", help="Who vouches: an OAuth provider's name, or header.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make an account, and print the link with which the person sets a password."""
    from app.people.accounts import PASSWORD
    from app.people.rights import OF_THIS_MACHINE

    _settings(url)  # an address that can't be is said before an account is made
    at = desk()
    secret = at.people.add(OF_THIS_MACHINE, name, admin=admin, groups=group or (), origin=by or PASSWORD)
    _tell_link(name, secret, url, as_json)


@people.command()
def invite(name: Name, group: Group = None, url: Url = None, as_json: Json = False) -> None:
    """As `add`: an account for somebody, and the link to send them."""
    add(name, False, group, None, url, as_json)


@people.command()
def reset(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Take a password away and end all sessions; print a link for a new one. Lets a disabled person in again."""
    from app.people.rights import OF_THIS_MACHINE

    _settings(url)
    _tell_link(name, desk().people.reset(OF_THIS_MACHINE, name), url, as_json)


@people.command()
def disable(name: Name) -> None:
    """Let somebody in no more: sessions, keys and links end at once; what they own stays."""
    from app.people.rights import OF_THIS_MACHINE

    desk().people.disable(OF_THIS_MACHINE, name)
    terminal.say(f"{name} is disabled; `readonce people reset {name}` lets them in again.")


@people.command()
def admin(name: Name, off: Annotated[bool, typer.Option("--off", help="No longer.")] = False) -> None:
    """Let somebody manage people, or no longer; their sessions end."""
    from app.people.rights import OF_THIS_MACHINE

    desk().people.set_admin(OF_THIS_MACHINE, name, not off)
    terminal.say(f"{name} manages people{' no longer' if off else ''}.")


@people.command()
def group(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="People, by what they log in with.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take them out.")] = False,
) -> None:
    """Put people into a group, which is made where it is missing; or take them out."""
    from app.people.rights import OF_THIS_MACHINE

    at = desk()
    for name in names:
        (at.people.leave if remove else at.people.join)(OF_THIS_MACHINE, group, name)
        terminal.say(f"{name} is {'no longer' if remove else 'now'} in the group {group}.")


@people.command("list")
def list_(jsonl: Jsonl = False) -> None:
    """List people, with their groups and what state they are in."""
    accounts = desk().people.accounts()
    shown = terminal.table("name", "groups", "state", "logs in by")
    for account in accounts:
        person = account.person
        state = "disabled" if person.disabled else "has not set a password" if account.waits else "active"
        state += ", admin" if person.admin else ""
        if jsonl:
            row = {"name": person.name, "groups": sorted(person.groups), "admin": person.admin}
            terminal.print_json(row | {"disabled": person.disabled, "waits": account.waits, "origin": account.origin})
        shown.add_row(person.name, ", ".join(sorted(person.groups)), state, account.origin)
    if not jsonl and accounts:
        terminal.out().print(shown)
    elif not accounts:
        terminal.say("Nobody has an account; the page is for whoever sits at this machine.")


@people.command()
def key(
    name: Name,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    as_json: Json = False,
) -> None:
    """Make an API key with the person's rights. It is shown this once."""
    from app.people.rights import OF_THIS_MACHINE

    made, words = desk().keys.make(OF_THIS_MACHINE, name, label)
    if as_json:
        terminal.print_json({"id": made.id, "person": made.person, "label": made.label, "key": words})
        return
    terminal.say(f"Key {made.id} of {made.person}; it is not shown again. `readonce people revoke {made.id}` ends it.")
    terminal.out().print(words, markup=False)


@people.command()
def keys(jsonl: Jsonl = False) -> None:
    """List API keys: whose they are, not what they are."""
    found = desk().keys.list()
    shown = terminal.table("id", "person", "label", "made")
    for each in found:
        if jsonl:
            terminal.print_json(each)
        shown.add_row(each.id, each.person, terminal.safe(each.label), _moment(each.made_at))
    if not jsonl:
        terminal.out().print(shown) if found else terminal.say("There are no API keys.")


@people.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's, as `readonce people keys` lists it.")],
) -> None:
    """End an API key at once."""
    from app.people.rights import OF_THIS_MACHINE

    ended = desk().keys.revoke(OF_THIS_MACHINE, key_id)
    terminal.say(f"Key {ended.id} of {ended.person} is ended.")


def audit(
    most: Annotated[int, typer.Option("-n", min=1, help="How many of the newest lines.")] = 100, jsonl: Jsonl = False
) -> None:
    """Show who logged in, was refused, and changed people, keys, rights and documents; oldest first."""
    from app.people.audit import lines

    found = lines(desk().kept, most)
    if not found:
        terminal.say("Nothing is written down yet.")
    for line in found:
        if jsonl:
            terminal.print_json(line)
        else:
            told = f"{_moment(line.at)}  {line.who}  {line.what}  {line.about}  {line.detail}".rstrip()
            terminal.out().print(terminal.safe(told))


def _moment(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(sep=" ", timespec="seconds")


def _settings(url: str | None) -> Settings:
    """Raises Problem where `url` is no address."""
    return Settings.load(url=url)


def _tell_link(name: str, secret: str | None, url: str | None, as_json: bool) -> None:
    from app.page.welcome import link
    from app.page.where import page_address

    at = page_address(_settings(None), url)
    address = None if secret is None else link(at.url, secret)
    if as_json:
        terminal.print_json({"name": name, "link": address, "address_from": at.taken_from if address else None})
    elif address is None:
        terminal.say(f"{name} logs in without a password of ours.")
    else:
        terminal.say(
            f"With this link {name} sets a password, once, within three days. Its address is from {at.taken_from}; "
            "--url or READONCE_URL sets another."
        )
        terminal.out().print(address, markup=False)
