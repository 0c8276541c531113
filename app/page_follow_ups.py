"""Decides when questions to go on with come under an answer: after it, if they come soon and nobody waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.follow_ups import come_soon
from app.page_log import explain
from app.page_text import plain_question

if TYPE_CHECKING:
    from app.conversation import Conversation
    from app.member import Member
    from app.page_answer import Shown
    from app.page_host import Host

_running: set[asyncio.Task[None]] = set()


def are_wanted(host: Host, shown: Shown) -> bool:
    """Whether the answer is one to go on from, and they would come soon with nobody waiting for an answer."""
    switch = host.settings.follow_ups
    if switch == "off" or shown.answer.abstained or shown.answer.reading is None or host.is_asked:
        return False
    return switch == "on" or come_soon(shown.answer.receipt)


def offer_soon(host: Host, member: Member, shown: Shown, conversation: Conversation) -> asyncio.Task[None]:
    """Puts them under the answer in the background; whoever asks the next question ends it."""
    task = asyncio.create_task(_offer(host, member, shown, conversation.tried()))
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


async def _offer(host: Host, member: Member, shown: Shown, conversation: Conversation) -> None:
    try:
        found = [plain_question(question) for question in await member.follow_ups(conversation)]
        if found:
            shown.foot.props = dict(shown.foot.props) | {"follow_ups": found}
            await shown.foot.update()
    except Exception as error:  # Nobody has asked for them.
        explain(error, host.settings.home, "en")
