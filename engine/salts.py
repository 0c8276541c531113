"""Decides vLLM's `cache_salt`: who may read a namespace shares its cache, nobody else can time what it holds.

A salt is made on a server, from a key that only the server has. No call takes one from a client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from engine.base import EngineError

KEY_NAME = "salt.key"
KEY_BYTES = 32


class Salts:
    """The salts of one server.

    Args:
        folder: Holds the key, `salt.key`; it is made at the first use, readable by its owner only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def salt_of(self, namespace: str, generation: str = "") -> str:
        """URL-safe base64 of HMAC-SHA256: 43 characters, the same for ever under this key.

        Args:
            namespace: A knowledge base; all its prefixes share blocks where they begin alike.
            generation: Not empty for a prefix that was freed and came back: nothing of its earlier life is found again.

        Raises:
            EngineError: `state_unusable` where the key can't be read or made.
        """
        words = f"{namespace}\0{generation}" if generation else namespace
        try:
            key = _key(self._folder)
        except OSError as error:
            raise EngineError(
                "state_unusable",
                f"The key of the salts in {self._folder} can't be used ({error}); check its rights and the space.",
            ) from error
        if len(key) < KEY_BYTES:  # a machine that lost its power, or a hand; with it anybody could compute the salts
            raise EngineError(
                "state_unusable",
                f"The key of the salts in {self._folder} has {len(key)} bytes instead of {KEY_BYTES}; remove the file "
                f"{KEY_NAME} there, and a new one is made.",
            )
        digest = hmac.new(key, words.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _key(folder: Path) -> bytes:
    path = folder / KEY_NAME
    try:
        return path.read_bytes()
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
    # Written aside and linked: of two processes that start at once, both end up with the first one's whole key.
    aside = folder / f"{KEY_NAME}.{os.getpid()}.{secrets.token_hex(4)}"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, secrets.token_bytes(KEY_BYTES))
        os.fsync(handle)
    finally:
        os.close(handle)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
    return path.read_bytes()
