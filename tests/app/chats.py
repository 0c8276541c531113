"""What the tests of kept chats bring along: a session as a browser's, and histories over one database."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from chainlit.context import ChainlitContext, context_var
from chainlit.session import WebsocketSession
from chainlit.user import PersistedUser, User

from app.history.database import Database
from app.history.files import LocalFiles
from app.history.layer import History


class Kept:
    """Histories over one database, as many lives of the server as a test wants."""

    def __init__(self, setting: str, home: Path) -> None:
        self.setting, self.home = setting, home
        self.unsaved: list[tuple[str, str]] = []
        self._opened: list[History] = []

    @property
    def first(self) -> History:
        return self._opened[0] if self._opened else self.open()

    def open(self) -> History:
        history = History(Database(self.setting, self.home), LocalFiles(self.home), self._note)
        self._opened.append(history)
        return history

    async def _note(self, thread_id: str, error: BaseException) -> None:
        self.unsaved.append((thread_id, str(error)))

    async def close(self) -> None:
        for history in self._opened:
            await history.close()


@asynccontextmanager
async def chatting(person: PersistedUser | None, thread_id: str | None = None) -> AsyncIterator[str]:
    """An open page in whose chat a first question has been asked; gives the chat's id."""
    sent: list[tuple[str, Any]] = []

    async def emit(event: str, data: Any) -> None:
        sent.append((event, data))

    call: Callable[..., Any] = emit
    session = WebsocketSession(
        id=str(uuid.uuid4()),
        socket_id=str(uuid.uuid4()),
        emit=emit,  # type: ignore[arg-type]
        emit_call=call,
        user_env={},
        client_type="webapp",
        user=person,
        thread_id=thread_id,
    )
    session.has_first_interaction = True
    token = context_var.set(ChainlitContext(session))
    try:
        yield session.thread_id
    finally:
        context_var.reset(token)
        await session.delete()


async def person(history: History, name: str) -> PersistedUser:
    made = await history.create_user(User(identifier=name, metadata={"role": "reader"}))
    assert made is not None
    return made


def step(thread_id: str, **values: Any) -> dict[str, Any]:
    """A person's message as Chainlit gives it."""
    return {
        "id": str(uuid.uuid4()),
        "threadId": thread_id,
        "parentId": None,
        "createdAt": "2026-05-01T08:00:00.000000Z",
        "command": None,
        "modes": None,
        "start": "2026-05-01T08:00:00.000000Z",
        "end": "2026-05-01T08:00:00.000000Z",
        "input": "",
        "output": "What does the ferry cost?",
        "name": "Ada",
        "type": "user_message",
        "language": None,
        "streaming": False,
        "isError": False,
        "waitForAnswer": False,
        "metadata": {},
        "tags": None,
    } | values
