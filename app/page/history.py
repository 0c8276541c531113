"""Decides how the page and the kept chats meet: what a resumed chat knows again, and how a lost write is told.

A resumed chat has the raw ids of its turns and its picked document, so its next question goes on where the last ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import chainlit as cl
from chainlit.context import ChainlitContext, context_var
from chainlit.session import WebsocketSession, ws_sessions_id

from app.conversation import Conversation
from app.history.database import Database
from app.history.files import LocalFiles
from app.history.layer import History
from app.history.turns import conversation_of
from app.page.documents import MODE, Choice
from app.page.log import explain, note
from app.page.words import language_of_browser, say

if TYPE_CHECKING:
    from pathlib import Path

    from app.history.chats import Readable
    from app.page.answer import Keep
    from app.settings import Settings
    from app.words import Language

# How long a resumed chat waits for an answer that its former page left behind to be stopped and kept.
STOP_S = 5.0

_left: WeakKeyDictionary[WebsocketSession, str] = WeakKeyDictionary()


class Unsaved:
    """Tells of writes that failed: each in the log, and one line a question in the chat.

    Chainlit gives each question a context of its own, before the question itself is kept.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._told: WeakSet[ChainlitContext] = WeakSet()

    async def __call__(self, thread_id: str, error: BaseException) -> None:
        context = context_var.get(None)
        why = explain(error, self.home, _language(context.session) if context else "en")
        note(f"chat {thread_id} was not kept: {why}", self.home)
        if context is None or not isinstance(context.session, WebsocketSession) or context in self._told:
            return
        self._told.add(context)
        line = cl.ErrorMessage(content=say("not_saved", _language(context.session), why=why))
        await context.emitter.send_step(line.to_dict())  # `send` would have it kept, where nothing is.


def open_history(settings: Settings, unsaved: Unsaved, readable: Readable, root_path: str) -> History:
    """The chats of the home; the database itself is opened with its first use.

    Args:
        readable: Which bases somebody may read.

    Raises:
        Problem: `bad_setting`, `history_client_missing`.
    """
    database = Database(settings.history.get_secret_value(), settings.home)
    return History(database, LocalFiles(settings.home, root_path), unsaved, readable)


def keeper(history: History, thread_id: str, conversation: Conversation, model: str) -> Keep:
    """What keeps the last turn of an open chat."""

    async def keep(step_id: str) -> None:
        conversation.show_last(step_id)
        await history.keep_turn(thread_id, step_id, conversation, model)

    return keep


async def resumed(
    history: History, thread: Any, settings: Settings, language: Language
) -> tuple[Conversation, Choice | None]:
    """The conversation of a chat that is opened again, and what was picked to ask about.

    An answer that an earlier page of the chat still waits for is stopped, and `thread` holds what came of it. A
    conversation that can't be read is told in the chat, which begins anew below what can.
    """
    await _stop_left_behind(cl.context.session)
    await history.database.settled()
    try:
        thread.update(await history.get_thread(thread["id"]) or {})
        conversation = await conversation_of(history.database, thread["id"], settings.model_name)
    except Exception as error:  # What is on the page already can be read.
        why = explain(error, settings.home, language)
        note(f"chat {thread['id']} was not brought back: {why}", settings.home)
        thread["steps"].append(cl.ErrorMessage(content=say("not_brought_back", language, why=why)).to_dict())
        conversation = Conversation()
    return conversation, picked_last(thread)


def picked_last(thread: Any) -> Choice | None:
    """What was picked for the chat's last question; None where nothing was."""
    asked = [step for step in thread["steps"] if step["type"] == "user_message"]
    return Choice.read((asked[-1].get("modes") or {}).get(MODE)) if asked else None


def leave(session: WebsocketSession) -> None:
    """The session's page is gone: closed, loaded again, or off the network for a moment."""
    _left[session] = session.socket_id


def is_open_elsewhere(session: WebsocketSession) -> bool:
    """Whether another page has the session's chat open."""
    return any(not _is_left(other) for other in _others(session))


def _others(session: WebsocketSession) -> list[WebsocketSession]:
    return [each for each in ws_sessions_id.values() if each is not session and each.thread_id == session.thread_id]


def _is_left(session: WebsocketSession) -> bool:
    """A page that comes back does so by another socket."""
    return _left.get(session) == session.socket_id


async def _stop_left_behind(session: Any) -> None:
    left = [each for each in _others(session) if _is_left(each)]
    running = [each.current_task for each in left if each.current_task is not None and not each.current_task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=STOP_S)


def _language(session: Any) -> Language:
    return language_of_browser((getattr(session, "environ", None) or {}).get("HTTP_ACCEPT_LANGUAGE"))
