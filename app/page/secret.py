"""Decides what logins are signed with: one secret a home, made once, for its owner's eyes."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

NAME = "page_secret"
VARIABLE = "CHAINLIT_AUTH_SECRET"


def sign_logins(home: Path) -> None:
    """Gives Chainlit the secret that it signs logins with, the same at each start, unless it was given one.

    Raises:
        OSError: The home can't be written.
    """
    if not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = secret(home)


def secret(home: Path) -> str:
    """The home's secret, made where it is missing.

    Raises:
        OSError: The home can't be written.
    """
    home.mkdir(parents=True, exist_ok=True)
    path = home / NAME
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=home, encoding="ascii") as draft:  # its owner's alone
            draft.write(secrets.token_urlsafe(48))
            draft.flush()
            with contextlib.suppress(FileExistsError):  # Of two that start at once the second takes the first one's.
                os.link(draft.name, path)
    return path.read_text(encoding="ascii")
