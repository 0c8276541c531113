"""Decides where the files of chats lie: one a page element, in a folder a chat, under the home."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Any

from chainlit.data.storage_clients.base import BaseStorageClient

from app.problem import Problem

FOLDER = "chats"
ROUTE = "/readonce/kept"
_PART = re.compile(r"[A-Za-z0-9_-]{1,80}")


def object_key(thread_id: str, element_id: str) -> str:
    """No name of a person's choice is part of it."""
    return f"{thread_id}/{element_id}"


class LocalFiles(BaseStorageClient):
    """Chainlit's storage client on this machine's disk."""

    def __init__(self, home: Path, root_path: str = "") -> None:
        self.folder = home / FOLDER
        self.root_path = root_path.rstrip("/")

    def path(self, key: str) -> Path:
        """Where the file of that key lies.

        Raises:
            Problem: `no_such_file` for a key that is none of ours; it never leads out of the folder.
        """
        parts = key.split("/")
        if len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
            raise Problem("no_such_file", "There is no such file in this chat: reload the page.")
        return self.folder.joinpath(*parts)

    async def upload_file(
        self,
        object_key: str,
        data: bytes | str,
        mime: str = "application/octet-stream",
        overwrite: bool = True,
        content_disposition: str | None = None,
    ) -> dict[str, Any]:
        """Keeps `data`; a crash leaves the old file or the new one.

        Raises:
            OSError: The disk refuses.
        """
        return {"object_key": object_key, "url": await asyncio.to_thread(self.keep, object_key, data)}

    def keep(self, object_key: str, data: bytes | str) -> str:
        """As `upload_file`; blocking. Returns the address at which it is read."""
        _write(self.path(object_key), data.encode() if isinstance(data, str) else data)
        return self._url(object_key)

    async def delete_file(self, object_key: str) -> bool:
        path = self.path(object_key)
        was_there = await asyncio.to_thread(path.exists)
        await asyncio.to_thread(path.unlink, missing_ok=True)
        return was_there

    async def delete_thread(self, thread_id: str) -> None:
        folder = self.path(object_key(thread_id, "all")).parent
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def get_read_url(self, object_key: str) -> str:
        return self._url(object_key)

    def _url(self, object_key: str) -> str:
        return f"{self.root_path}{ROUTE}/{object_key}"

    async def close(self) -> None: ...


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(path.name + ".part")
    draft.touch(mode=0o600)
    draft.write_bytes(data)
    os.replace(draft, path)
