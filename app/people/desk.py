"""Decides how people, keys and bases are opened together over the documents of a home, and whether a login is due."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.api.keys import ApiKeys
from app.people.accounts import People
from app.people.attempts import Addresses
from app.people.library import Library
from app.people.records import Records
from app.problem import Problem
from app.settings import Settings

if TYPE_CHECKING:
    from ingest.corpus import Corpus


@dataclass(frozen=True)
class Desk:
    """Everything about who may do what."""

    kept: Records
    people: People
    addresses: Addresses
    keys: ApiKeys
    library: Library

    @classmethod
    def of(cls, kept: Records, filled: Callable[[], Sequence[str]] = tuple) -> Desk:
        """Args:
        filled: Names of the bases that hold documents.
        """
        people = People(kept)
        return cls(kept, people, Addresses(kept), ApiKeys(kept, people), Library(kept, filled))

    @classmethod
    def open(cls, settings: Settings, corpus: Corpus | None = None) -> Desk:
        """Opens the home's; its documents too where none are given. Blocking; starts no engine.

        Raises:
            Problem: `people_unusable`, `people_version`.
        """
        from ingest.corpus import Corpus

        documents = corpus or Corpus.open(settings.home, settings.ingest)
        return cls.of(records_of(settings), documents.kbs)


def records_of(settings: Settings) -> Records:
    """Raises:
    Problem: `people_unusable`, `people_version`.
    """
    url = settings.people_database.get_secret_value() if settings.people_database else None
    return Records.open(settings.home, url)


def is_this_machine(host: str) -> bool:
    """Whether a page that listens on `host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def login_needed(settings: Settings, host: str, people: People) -> bool:
    """Whether the page at `host` asks who somebody is.

    Raises:
        Problem: `login_needed` where login is off and others could reach the page.
    """
    beyond = not is_this_machine(host)
    if settings.login == "off" and beyond:
        raise Problem(
            "login_needed",
            f"Without login the page is for this machine only, not for {host}: leave READONCE_LOGIN away, or --host.",
            usage=True,
        )
    return settings.login == "on" or (settings.login == "auto" and (beyond or people.any()))
