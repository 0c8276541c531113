"""Decides who somebody is where nobody logs in: on this machine alone, the one local person, whose chats are kept.

Chainlit keeps chats of people who have logged in only, so the browser is logged in by itself. A page that listens to
other machines too has no local person: everybody would read everybody's chats.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path

import chainlit as cl
from chainlit.config import config

LOCAL = "local"
SECRET = "page_secret"
SECRET_VARIABLE = "CHAINLIT_AUTH_SECRET"


def somebody_logs_in() -> bool:
    """Whether the page has a way to log in of its own."""
    code = config.code
    return any((code.password_auth_callback, code.header_auth_callback, code.oauth_callback))


def is_this_machine(host: str) -> bool:
    """Whether a page that listens on `host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def local_person(headers: object) -> cl.User:
    """For Chainlit's `header_auth_callback`."""
    return cl.User(identifier=LOCAL, display_name="", metadata={})


def sign_logins(home: Path) -> None:
    """Gives Chainlit the secret that it signs logins with, the same at each start, unless it was given one.

    Raises:
        OSError: The home can't be written.
    """
    if not os.environ.get(SECRET_VARIABLE):
        os.environ[SECRET_VARIABLE] = _secret(home / SECRET)


def _secret(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_urlsafe(48), encoding="ascii")
    try:
        os.link(draft, path)  # Of two that start at once the second takes the first one's.
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text(encoding="ascii")
