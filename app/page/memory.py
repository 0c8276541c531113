"""Decides what leaves the page's memory with a chat's session: the messages too, which Chainlit keeps for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from chainlit.chat_context import chat_contexts
from chainlit.session import WebsocketSession

# An answer that was being written when its chat was closed still adds its end.
AFTER_S = 60.0


def forget_with_sessions(after_s: float = AFTER_S) -> None:
    """From now on a session that Chainlit deletes takes its messages along, `after_s` seconds later. Once a process."""
    delete: Any = WebsocketSession.delete
    if getattr(delete, "forgets", False):
        return

    async def delete_all(session: WebsocketSession) -> None:
        await delete(session)
        asyncio.get_running_loop().call_later(after_s, chat_contexts.pop, session.id, None)

    delete_all.forgets = True  # type: ignore[attr-defined]  # `chainlit run --watch` loads the page again
    WebsocketSession.delete = delete_all  # type: ignore[method-assign]
