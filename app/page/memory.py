"""Decides what stays in the page's memory, and what leaves it with a chat's session.

Chainlit keeps the messages of every chat for ever.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from typing import Any

from chainlit.chat_context import chat_contexts
from chainlit.session import WebsocketSession

# An answer that was being written when its chat was closed still adds its end.
AFTER_S = 60.0
# How long it may take to end before the session's files go; what it shows is kept there first.
END_S = 10.0
TRIM_EACH_S = 30.0


def forget_with_sessions(after_s: float = AFTER_S) -> None:
    """From now on a session that Chainlit deletes takes its messages along, `after_s` seconds later. Once a process.

    An answer that was stopped with it ends first: its foot is written into the session's files.
    """
    delete: Any = WebsocketSession.delete
    if getattr(delete, "forgets", False):
        return

    async def delete_all(session: WebsocketSession) -> None:
        if session.current_task is not None:
            await asyncio.wait([session.current_task], timeout=END_S)
        await delete(session)
        asyncio.get_running_loop().call_later(after_s, chat_contexts.pop, session.id, None)

    delete_all.forgets = True  # type: ignore[attr-defined]  # `chainlit run --watch` loads the page again
    WebsocketSession.delete = delete_all  # type: ignore[method-assign]


def set_aside_what_stays() -> None:
    """Takes what is there now (modules, models) out of the collector's rounds; blocking, a fraction of a second.

    A round through all of it stops everybody's words for as long, time and again.
    """
    gc.collect()
    gc.freeze()


async def give_back_what_is_free() -> None:
    """Hands memory that nobody uses back to the system now and then, until it is cancelled.

    The C library keeps what was freed between what is still held: after some 900 questions 97 of 1,059 MB. Does
    nothing where the library has no call for it.
    """
    while await asyncio.to_thread(give_back):
        await asyncio.sleep(TRIM_EACH_S)


def give_back() -> bool:
    """Once, blocking, some milliseconds; whether the C library can do it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True
