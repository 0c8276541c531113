"""Decides what of kept chats the rights of now let somebody see: their own answers, and chats that others share.

A kept answer quotes its base. Whoever lost the right to that base sees it no more, in their own chats either.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from app.page.host import Host
from app.people.desk import Desk
from app.problem import Problem

if TYPE_CHECKING:
    from app.history.layer import History
    from app.page.kept import MayView


class ChatRights:
    """Looks rights up at each call.

    Args:
        with_login: Whether people log in now; else who sits at the machine sees all that is theirs.
    """

    def __init__(self, host: Host, desk: Desk, with_login: Callable[[], bool]) -> None:
        self._host = host
        self._desk = desk
        self._with_login = with_login

    async def readable(self, name: str) -> frozenset[str] | None:
        """The bases that `name` may read; None: whatever there is and was."""
        if not self._with_login():
            return None
        with contextlib.suppress(Problem):  # Bases that were never shared are known by their documents.
            await self._host.opened()
        return await asyncio.to_thread(self._readable, name)

    def may_view(self, history: History) -> MayView:
        """Whether somebody else than its author sees a chat: it is shared, and they may read each base in it."""

        async def may_view(thread_id: str, viewer: Any) -> bool:
            if viewer is None or not await history.is_shared(thread_id):
                return False
            readable = await self.readable(viewer.identifier)
            return readable is not None and readable.issuperset(await history.bases_of(thread_id))

        return may_view

    def _readable(self, name: str) -> frozenset[str]:
        try:
            return self._desk.library.readable_names(self._desk.people.find(name))
        except Problem:  # There is no such person any more.
            return frozenset()
