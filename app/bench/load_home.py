"""Decides what the simulated people come to: a home with accounts, groups, bases and documents, made beforehand."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.bench.load_facts import Fact, invented

if TYPE_CHECKING:
    from app.settings import Settings

DOCUMENTS_A_BASE = 6
PEOPLE_A_BASE = 50


@dataclass(frozen=True)
class Account:
    """Somebody who can log in, and what they may ask.

    Attributes:
        key: Of the API.
    """

    name: str
    password: str
    key: str
    kb: str
    facts: tuple[Fact, ...]


def make_home(settings: Settings, num_people: int, say: Callable[[str], None]) -> tuple[Account, ...]:
    """Blocking, a second for each ten people. The home is empty before."""
    from app.people.desk import Desk
    from app.people.rights import OF_THIS_MACHINE
    from ingest.corpus import Corpus

    num_bases = -(-num_people // PEOPLE_A_BASE)
    files = invented(num_bases * DOCUMENTS_A_BASE)
    corpus = Corpus.open(settings.home, settings.ingest)
    desk = Desk.open(settings, corpus)
    accounts: list[Account] = []
    try:
        for base in range(num_bases):
            kb, group = f"base {base + 1}", f"group-{base + 1}"
            say(f"Writing the documents of {kb}")
            held = files[base * DOCUMENTS_A_BASE : (base + 1) * DOCUMENTS_A_BASE]
            for file in held:
                path = settings.home / "registers" / f"{file.name}.md"
                path.parent.mkdir(exist_ok=True)
                path.write_text(file.text, encoding="utf-8")
                corpus.add(path, kb=kb)
            facts = tuple(fact for file in held for fact in file.facts)
            count = min(PEOPLE_A_BASE, num_people - base * PEOPLE_A_BASE)
            say(f"Making {count} accounts for it")
            for number in range(count):
                name = f"person{base * PEOPLE_A_BASE + number + 1}"
                link = desk.people.add(OF_THIS_MACHINE, name, groups=[group], admin=not accounts)
                assert link is not None
                password = secrets.token_urlsafe(12)
                desk.people.use_link(link, password)
                key = desk.keys.make(OF_THIS_MACHINE, name)[1]
                accounts.append(Account(name, password, key, kb, facts))
            desk.library.share(OF_THIS_MACHINE, kb, group=group)
    finally:
        corpus.close()
    return tuple(accounts)
