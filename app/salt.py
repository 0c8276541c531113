"""Decides the `cache_salt` of a knowledge base: who may read it shares its cache, nobody else can time what it holds.

The salt is made here, on the server's side, from a key that only this READONCE_HOME has; a client never sends one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path

KEY_NAME = "salt.key"
KEY_BYTES = 32


def salt_of(home: Path, kb: str) -> str:
    """URL-safe base64 of HMAC-SHA256(key, kb): 43 characters, the same for ever in this home; makes the key."""
    digest = hmac.new(_key(home), kb.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _key(home: Path) -> bytes:
    path = home / KEY_NAME
    try:
        return path.read_bytes()
    except FileNotFoundError:
        home.mkdir(parents=True, exist_ok=True)
    # Written aside and linked: of two processes that start at once, both end up with the first one's whole key.
    aside = home / f"{KEY_NAME}.{os.getpid()}.{secrets.token_hex(4)}"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, secrets.token_bytes(KEY_BYTES))
    finally:
        os.close(handle)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
    return path.read_bytes()
