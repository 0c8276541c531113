"""Decides what the page offers after a refusal that has not read all of a document: the rest, at a cost told first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.page.documents import Choice
from app.page.pace import Pace
from app.page.words import say
from app.whole import cost_of_whole
from app.words import Language

if TYPE_CHECKING:
    from app.answer import Answer
    from app.people.member import Member


async def whole_offer(
    member: Member, answer: Answer, choice: Choice, pace: Pace, language: Language
) -> dict[str, Any] | None:
    """What AnswerFoot.jsx gets after `answer`: {label, cost, document}; None where no more can be read."""
    cost = await cost_of_whole(member.assistant, answer, choice.doc_id, choice.kb, pace.tokens_per_s)
    if cost is None:
        return None
    return {
        "label": say("read_it_whole", language),
        "cost": cost.words(language),
        "document": Choice(choice.kb, cost.doc_id).id,
    }
