"""Decides how one answer comes onto the page: what is being done, words as they come, then the checked text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import chainlit as cl

from app.answer import Answer, Citation, Event, Reading, Words
from app.conversation import Conversation
from app.page.again import How
from app.page.documents import Choice
from app.page.foot import foot_props, reading_line
from app.page.host import LOOK_S, Host
from app.page.offer import whole_offer
from app.page.sources import source_props, where
from app.page.text import mark_name, plain_words, safe_markdown, source_name, streamed_markdown, with_marks
from app.page.words import say
from app.people.member import Member
from app.words import Language

# The browser renders the whole Markdown at each piece, and each costs the page a call to the network.
PIECE_S = 0.09
NOT_FOUND_ICON = "search-x"

Keep = Callable[[str], Awaitable[None]]
"""Takes the id of the message that shows the answer."""


@dataclass(frozen=True)
class Shown:
    """An answer on the page, and what stands under it."""

    answer: Answer
    foot: cl.CustomElement


class Reply:
    """A message that is being written."""

    def __init__(self) -> None:
        self.message = cl.Message(content="")
        self.text = ""
        self._shown = ""
        self._at = 0.0
        self._has_words = False

    async def status(self, sentence: str) -> None:
        """Shows what is being done in place of words that have not come yet."""
        # The space lets the closing star be one: the blinking cursor comes right behind it.
        await self._show("\n".join(f"*{line}* " for line in sentence.splitlines()))

    async def write(self, words: str) -> None:
        """Adds words, sent in pieces; the first ones at once, however lately a line was shown in their place."""
        self.text += words
        if self.text.strip() and (not self._has_words or time.monotonic() - self._at >= PIECE_S):
            self._has_words = True
            await self._show(streamed_markdown(self.text))

    async def finish(self, text: str, elements: list[Any], icon: str | None = None) -> None:
        """Puts the final text and what belongs to it in place of what streamed."""
        self.message.content = text
        self.message.elements = elements
        if icon is not None:
            self.message.metadata = {"icon": icon}
        await (self.message.update() if self._at else self.message.send())
        # Shown and kept by now. Chainlit holds every message of an open chat, and these are most of it.
        self.message.elements = []

    async def _show(self, text: str) -> None:
        if text == self._shown:
            return
        if self._shown and text.startswith(self._shown):
            await self.message.stream_token(text[len(self._shown) :])
        else:
            await self.message.stream_token(text, is_sequence=True)
        self._shown, self._at = text, time.monotonic()


@dataclass(frozen=True)
class Asked:
    """A question on the page.

    Attributes:
        chat: The name by which the chat holds what was read, until `Host.chat_ended`.
    """

    question: str
    choice: Choice
    chat: str
    language: Language
    how: How = "plain"


async def answer_on_page(
    host: Host, member: Member, asked: Asked, conversation: Conversation, keep: Keep | None = None
) -> Shown | None:
    """Asks and shows. Stop ends it early: the engine is told, the words so far stay.

    Args:
        keep: Keeps the turn that the question added to the conversation, where it added one.

    Returns:
        What was shown; None where it was stopped.

    Raises:
        Problem, EngineError, IngestError: One sentence each; words that had come by then stay on the page.
    """
    reply = Reply()
    reading: Reading | None = None
    language = asked.language
    num_turns = len(conversation.turns)
    try:
        with host.asking():
            async for _ in host.wait():
                await reply.status(_waiting(host, language))
            await reply.status(say("looking", language))
            async with aclosing(_events(member, asked, conversation)) as events, _told(host, reply, language):
                async for event in events:
                    if isinstance(event, Reading):
                        reading = event
                        reply.text = ""  # Of a section that did not answer, where another one is read now.
                        await reply.status(reading_line(reading, language, done=False))
                    elif isinstance(event, Words):
                        await reply.write(event.text)
                    else:
                        host.pace.note(event.receipt)
                        return await _finish(reply, host, member, asked, event)
    except asyncio.CancelledError:
        # Swallowed: Chainlit's own task ends here, and what follows in it is only its end.
        await _finish_stopped(reply, reading, language)
    except Exception:
        if reply.text.strip():
            await reply.finish(safe_markdown(reply.text), [])
        else:
            await reply.message.remove()
        raise
    finally:
        if keep is not None and len(conversation.turns) > num_turns:
            await keep(reply.message.id)
    return None


def _waiting(host: Host, language: Language) -> str:
    return f"{host.sentence(language)}\n{say('your_turn_comes', language)}"


@asynccontextmanager
async def _told(host: Host, reply: Reply, language: Language) -> AsyncIterator[None]:
    """An engine that ends before the first word is started again: that is said meanwhile."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if host.state == "starting" and not reply.text.strip():
                await reply.status(_waiting(host, language))

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


def _events(member: Member, asked: Asked, conversation: Conversation) -> AsyncGenerator[Event, None]:
    kb, doc_id = asked.choice.kb, asked.choice.doc_id
    if asked.how == "whole" and doc_id is not None:
        return member.read_through(asked.question, kb, doc_id, conversation=conversation, session=asked.chat)
    afresh = asked.how == "afresh"
    return member.ask(asked.question, kb, doc_id=doc_id, conversation=conversation, session=asked.chat, afresh=afresh)


async def _finish(reply: Reply, host: Host, member: Member, asked: Asked, answer: Answer) -> Shown:
    language = asked.language
    documents = {document.id: document for document in await asyncio.to_thread(member.documents)}
    quotes = "\n".join(citation.quote for citation in answer.citations)
    numbers = {citation.number for citation in answer.citations}
    # What nothing supports is folded away below what we say.
    text = with_marks(safe_markdown(answer.refusal or answer.text, allowed_in=quotes), numbers)
    at_place: dict[tuple[str, str], list[Citation]] = {}
    for citation in answer.citations:
        place = where(citation, documents.get(citation.doc_id), language)
        at_place.setdefault((citation.doc_id, place), []).append(citation)
    elements: list[Any] = []
    lines: list[str] = []
    sources: dict[str, dict[str, Any]] = {}
    for (_, place), citations in at_place.items():
        line = source_name([citation.number for citation in citations], citations[0].title, place)
        lines.append(line)
        opened_by = [(line, citations[0]), *((mark_name(citation.number), citation) for citation in citations)]
        for name, citation in opened_by:
            # This makes `name` a link; where it leads is AnswerFoot.jsx's, and without that a page with the quote.
            elements.append(cl.Text(name=name, content=f"{citation.quote}\n\n{line}", display="page"))
            sources[name] = source_props(citation, place, language)
    props = foot_props(answer.receipt, answer.reading, None, language, answer.search_ms)
    foot = _foot(reply, props | {"sources": sources, "unsupported": plain_words(answer.unsupported)})
    elements.append(foot)
    below = ["\n".join(lines)] if lines else []
    await reply.finish("\n\n".join([text, *below]), elements, NOT_FOUND_ICON if answer.abstained else None)
    # The answer stands by now: a document whose length is not known yet is counted first.
    offer = await whole_offer(member, answer, asked.choice, host.pace, language)
    if offer is not None:
        foot.props = dict(foot.props) | {"offer": offer}
        await foot.update()
    return Shown(answer, foot)


def _foot(reply: Reply, props: dict[str, Any]) -> cl.CustomElement:
    return cl.CustomElement(name="AnswerFoot", props=props | {"answer": reply.message.id}, display="inline")


async def _finish_stopped(reply: Reply, reading: Reading | None, language: Language) -> None:
    text = streamed_markdown(reply.text).strip()
    told = say("stopped" if text else "stopped_early", language)
    read = reading if text else None
    foot = _foot(reply, foot_props(None, read, told, language))
    await reply.finish(f"{text} …" if text else "", [foot])
