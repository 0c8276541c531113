"""Decides which address of the page stands in links that are sent to people, and says where it was taken from.

The page writes down where it listens, since a command that prints a link later can't see the server.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from app.setting_words import variable_of
from app.settings import Settings
from app.web import address

NAME = "page_address"
OUTER = "CHAINLIT_URL"


@dataclass(frozen=True)
class PageAddress:
    """`url` without a slash at its end; `taken_from` in words."""

    url: str
    taken_from: str


def outer_address(settings: Settings) -> PageAddress | None:
    """What somebody has set; None where nobody has."""
    for url, taken_from in ((settings.url, variable_of("url")), (os.environ.get(OUTER), OUTER)):
        if url:
            return PageAddress(url.rstrip("/"), taken_from)
    return None


def page_address(settings: Settings, given: str | None = None) -> PageAddress:
    """Args:
    given: What the command line says.
    """
    if given is not None:
        return PageAddress(given.rstrip("/"), "--url")
    outer = outer_address(settings)
    if outer is not None:
        return outer
    with contextlib.suppress(OSError, UnicodeDecodeError):
        last = (settings.home / NAME).read_text(encoding="utf-8").strip()
        if last.startswith(("http://", "https://")):
            return PageAddress(last, "where the page was started last")
    return PageAddress(address(settings.host, settings.port), "the settings, as the page was not started yet")


def note_address(home: Path, host: str, port: int) -> None:
    """Writes down where the page listens, for `page_address`; a home that can't be written loses only that."""
    with contextlib.suppress(OSError):
        (home / NAME).write_text(address(host, port) + "\n", encoding="utf-8")
