"""Decides when questions to go on with come under an answer: after it, if they come soon and nobody waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import chainlit as cl

from app.follow_ups import come_soon
from app.page.log import explain
from app.page.text import plain_question

if TYPE_CHECKING:
    from app.conversation import Conversation
    from app.page.answer import Shown
    from app.page.host import Host
    from app.people.member import Member

_KEY = "follow_ups"

_running: set[asyncio.Task[None]] = set()


def offer_soon(host: Host, member: Member, shown: Shown, conversation: Conversation) -> None:
    """Puts them under the answer in the background, where it is one to go on from; returns at once."""
    if not _are_wanted(host, shown):
        return
    task = asyncio.create_task(_offer(host, member, shown, conversation.tried()))
    _running.add(task)
    task.add_done_callback(_running.discard)
    cl.user_session.set(_KEY, task)


def leave() -> None:
    """The chat goes on without those that are still being made."""
    task = cl.user_session.get(_KEY)
    if isinstance(task, asyncio.Task):
        task.cancel()
        cl.user_session.set(_KEY, None)


def _are_wanted(host: Host, shown: Shown) -> bool:
    switch = host.settings.follow_ups
    if switch == "off" or shown.answer.abstained or shown.answer.reading is None or host.is_asked:
        return False
    return switch == "on" or come_soon(shown.answer.receipt)


async def _offer(host: Host, member: Member, shown: Shown, conversation: Conversation) -> None:
    try:
        found = [plain_question(question) for question in await member.follow_ups(conversation)]
        if found:
            shown.foot.props = dict(shown.foot.props) | {"follow_ups": found}
            await shown.foot.update()
    except Exception as error:  # Nobody has asked for them.
        explain(error, host.settings.home, "en")
