"""Decides how one answer comes onto the page: what is being done, words as they come, then the checked text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import chainlit as cl

from app.answer import Answer, Citation, Reading, Words
from app.conversation import Conversation
from app.member import Member
from app.page_foot import foot_props, reading_line
from app.page_host import Host
from app.page_sources import source_props, where
from app.page_text import mark_name, safe_markdown, source_name, streamed_markdown, with_marks
from app.page_words import say
from app.words import Language

# The browser renders the whole Markdown at each piece; 25 times a second is as smooth as more.
PIECE_S = 0.04
NOT_FOUND_ICON = "search-x"

Keep = Callable[[str], Awaitable[None]]
"""Takes the id of the message that shows the answer."""


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

    async def _show(self, text: str) -> None:
        if text == self._shown:
            return
        if self._shown and text.startswith(self._shown):
            await self.message.stream_token(text[len(self._shown) :])
        else:
            await self.message.stream_token(text, is_sequence=True)
        self._shown, self._at = text, time.monotonic()


async def answer_on_page(
    host: Host,
    member: Member,
    question: str,
    kb: str,
    doc_id: str | None,
    conversation: Conversation,
    chat: str,
    language: Language,
    keep: Keep | None = None,
) -> None:
    """Asks and shows. Stop ends it early: the engine is told, the words so far stay.

    Args:
        chat: The name by which the chat holds what was read, until `Host.chat_ended`.
        keep: Keeps the turn that the question added to the conversation, where it added one.

    Raises:
        Problem, EngineError, IngestError: One sentence each; words that had come by then stay on the page.
    """
    reply = Reply()
    reading: Reading | None = None
    num_turns = len(conversation.turns)
    try:
        with host.asking():
            async for _ in host.wait():
                await reply.status(f"{host.sentence(language)}\n{say('your_turn_comes', language)}")
            await reply.status(say("looking", language))
            asked = member.ask(question, kb, doc_id=doc_id, conversation=conversation, session=chat)
            async with aclosing(asked) as events:
                async for event in events:
                    if isinstance(event, Reading):
                        reading = event
                        await reply.status(reading_line(reading, language, done=False))
                    elif isinstance(event, Words):
                        await reply.write(event.text)
                    else:
                        await _finish(reply, member, event, language)
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


async def _finish(reply: Reply, member: Member, answer: Answer, language: Language) -> None:
    documents = {document.id: document for document in await asyncio.to_thread(member.documents)}
    quotes = "\n".join(citation.quote for citation in answer.citations)
    numbers = {citation.number for citation in answer.citations}
    text = with_marks(safe_markdown(answer.text, allowed_in=quotes), numbers)
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
    foot = foot_props(answer.receipt, answer.reading, None, language) | {"sources": sources}
    elements.append(cl.CustomElement(name="AnswerFoot", props=foot, display="inline"))
    below = ["\n".join(lines)] if lines else []
    await reply.finish("\n\n".join([text, *below]), elements, NOT_FOUND_ICON if answer.abstained else None)


async def _finish_stopped(reply: Reply, reading: Reading | None, language: Language) -> None:
    text = streamed_markdown(reply.text).strip()
    told = say("stopped" if text else "stopped_early", language)
    read = reading if text else None
    foot = cl.CustomElement(name="AnswerFoot", props=foot_props(None, read, told, language), display="inline")
    await reply.finish(f"{text} …" if text else "", [foot])
