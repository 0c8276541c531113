"""Decides what becomes of a chat whose question is asked again: it goes on from the turn before.

That is so for a question that was edited, for another answer to the same one, and for the whole document in place of a
refusal. What came after the question leaves the page, the kept chat and the conversation, whose remaining turns are in
the engine's cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import chainlit as cl
from chainlit.config import config
from chainlit.context import init_ws_context
from chainlit.session import WebsocketSession
from chainlit.socket import sio  # type: ignore[attr-defined]

from app.page.documents import Choice

if TYPE_CHECKING:
    from app.conversation import Conversation
    from app.history.layer import History

# How long an answer that is still being written may take to stop.
STOP_S = 5.0
_KEY = "again"

How = Literal["plain", "afresh", "whole"]
"""As any question; in other words than before; by all of the document."""


@dataclass(frozen=True)
class Way:
    """How a message is to be answered; `choice` in place of what was picked for it, where one is given."""

    how: How = "plain"
    choice: Choice | None = None

    @classmethod
    def of(cls, message: cl.Message) -> Way:
        """As `noted` has left it; of what a browser may have written there nothing is taken that is not known."""
        return cls.read((message.metadata or {}).get(_KEY))

    @classmethod
    def read(cls, told: Any) -> Way:
        told = told if isinstance(told, dict) else {}
        how, document = told.get("how"), told.get("document")
        choice = Choice.read(document) if isinstance(document, str) else None
        if how not in get_args(How) or (how == "whole" and (choice is None or choice.doc_id is None)):
            return cls()
        return cls(how, choice)

    def noted(self, message: cl.Message) -> None:
        told = {"how": self.how, "document": self.choice.id if self.choice else None}
        message.metadata = (message.metadata or {}) | {_KEY: told}


def question_before(answer_id: str) -> cl.Message | None:
    """The question of the open chat that a message of it answers."""
    question = None
    for message in cl.chat_context.get():
        if message.id == answer_id:
            return question
        if message.type == "user_message":
            question = message
    return None


def question_of(message_id: str) -> cl.Message | None:
    """A question of the open chat by its own id."""
    questions = (message for message in cl.chat_context.get() if message.type == "user_message")
    return next((message for message in questions if message.id == message_id), None)


async def go_back_to(question: cl.Message, history: History, conversation: Conversation) -> None:
    """Takes out of the open chat all that came after one of its questions."""
    messages = cl.chat_context.get()
    gone = messages[messages.index(question) + 1 :]
    conversation.cut_back({message.id for message in gone})
    await history.database.settled()  # What Chainlit still writes of them would come after they were taken out.
    await history.cut_back(cl.context.session.thread_id, question.id)
    for message in gone:
        cl.chat_context.remove(message)
        await cl.context.emitter.delete_step(message.to_dict())


def listen(history: History, conversation: Callable[[], Conversation]) -> None:
    """Has Chainlit call what is here.

    Args:
        conversation: Gives that of the open chat.
    """

    # In place of Chainlit's own, which leaves the conversation as it was and can't be stopped.
    @sio.on("edit_message")  # type: ignore[untyped-decorator]
    async def edit_message(sid: str, payload: Any) -> None:
        init_ws_context(WebsocketSession.require(sid))
        told = payload["message"]
        question = question_of(str(told.get("id")))
        if question is not None:
            await _ask_again(question, Way(), history, conversation(), str(told.get("output") or ""))

    @cl.action_callback("ask_again")
    async def again(action: cl.Action) -> None:
        question = question_before(str(action.payload.get("answer")))
        if question is not None:
            await _ask_again(question, Way.read(action.payload), history, conversation())

    @cl.action_callback("follow_up")
    async def follow_up(action: cl.Action) -> None:
        await _ask(str(action.payload.get("question") or ""))


async def _ask_again(
    question: cl.Message, way: Way, history: History, conversation: Conversation, content: str = ""
) -> None:
    """Goes back to a question, puts `content` in its place where there is some, and has it answered."""

    async def work() -> None:
        await go_back_to(question, history, conversation)
        question.content = content.strip() or question.content
        question.elements = []  # Files that came with it are in the library since.
        way.noted(question)
        await question.update()
        await _answer(question)

    await _in_place_of_what_runs(work)


async def _ask(question: str) -> None:
    """Asks a question in the person's name, about what the chat's last one was about."""
    earlier = [message for message in cl.chat_context.get() if message.type == "user_message"]
    if not question.strip() or not earlier:
        return
    message = cl.Message(question.strip(), author=earlier[-1].author, type="user_message", modes=earlier[-1].modes)

    async def work() -> None:
        await message.send()
        await _answer(message)

    await _in_place_of_what_runs(work)


async def _answer(question: cl.Message) -> None:
    on_message = config.code.on_message
    assert on_message is not None
    await on_message(question)


async def _in_place_of_what_runs(work: Callable[[], Awaitable[None]]) -> None:
    """Does `work` as Chainlit does that for a message: Stop ends it; returns at once.

    What still runs for the chat is ended first.
    """
    session = cl.context.session
    assert isinstance(session, WebsocketSession)  # Chats are held in a browser.
    running = session.current_task
    if running is not None and not running.done():
        running.cancel()
        await asyncio.wait([running], timeout=STOP_S)
    session.current_task = asyncio.create_task(_as_a_task(work))


async def _as_a_task(work: Callable[[], Awaitable[None]]) -> None:
    await cl.context.emitter.task_start()
    try:
        await work()
    except asyncio.CancelledError:
        pass  # As Chainlit's own: Stop has been told.
    finally:
        await cl.context.emitter.task_end()
