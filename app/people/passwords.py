"""Decides how passwords and keys are kept: a password as an Argon2id hash, a key or a link as its SHA-256.

A key has 256 random bits, so that nobody guesses it from a fast hash; a password has what a person remembers.
"""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from typing import TYPE_CHECKING

from app.problem import Problem

if TYPE_CHECKING:
    from argon2 import PasswordHasher

FEWEST_CHARACTERS, MOST_CHARACTERS = 12, 1_024


def hashed(password: str) -> str:
    """An Argon2id hash with its salt. Slow on purpose (tens of milliseconds, 64 MiB): call it in a thread.

    Raises:
        Problem: `bad_password`.
    """
    if not FEWEST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise Problem(
            "bad_password",
            f"A password has {FEWEST_CHARACTERS} to {MOST_CHARACTERS:,} characters, this one {len(password):,}.",
            usage=True,
        )
    return _hasher().hash(password)


def matches(password: str, password_hash: str | None) -> bool:
    """Whether it is the one. Takes as long where there is no hash, so that time tells nobody which names exist."""
    from argon2.exceptions import Argon2Error, InvalidHashError

    if len(password) > MOST_CHARACTERS:
        return False
    try:
        _hasher().verify(password_hash or _of_nobody(), password)
    except (Argon2Error, InvalidHashError):
        return False
    return password_hash is not None


def new_secret() -> str:
    """256 random bits, fit for an address and a header."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()  # the library's own choice of cost, which follows RFC 9106


@cache
def _of_nobody() -> str:
    return hashed(new_secret())
