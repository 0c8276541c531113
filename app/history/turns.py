"""Decides how a conversation outlives its session: each turn's raw ids beside the step that shows its answer.

With them the next prompt of a resumed chat begins with the very ids of the one before, which the engine has cached.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from app.conversation import Conversation, Turn
from app.history.database import Database
from app.history.schema import TURNS


def turn_row(thread_id: str, step_id: str, conversation: Conversation, model: str) -> dict[str, Any]:
    """The row of the conversation's last turn.

    Args:
        step_id: The message that shows its answer.
        model: Whose ids they are.
    """
    turn = conversation.turns[-1]
    return {
        "threadId": thread_id,
        "stepId": step_id,
        "question": turn.question,
        "ids": array("i", turn.ids).tobytes(),
        "kb": turn.kb,
        "docId": turn.doc_id,
        "sections": list(turn.sections),
        "first": conversation.first,
        "model": model,
    }


async def conversation_of(database: Database, thread_id: str, model: str) -> Conversation:
    """The chat's conversation as its last session left it.

    Turns of another model are still searched with, but not shown to this one: their ids mean other words to it.

    Raises:
        Problem: `history_unreachable`.
    """
    query = select(TURNS).where(TURNS.c.threadId == thread_id).order_by(TURNS.c.number)
    rows = await database.read(lambda connection: list(connection.execute(query).mappings()))
    turns, foreign = list[Turn](), 0
    for number, row in enumerate(rows, 1):
        foreign = number if row["model"] != model else foreign
        read = row["docId"], tuple(row["sections"]), row["kb"]
        turns.append(Turn(row["question"], _ids(row["ids"]), *read, row["stepId"], max(row["first"], foreign)))
    return Conversation(turns, turns[-1].first if turns else 0)


def withheld_steps(rows: Sequence[Mapping[str, Any]], readable: Collection[str]) -> dict[str, str]:
    """Those of a chat's answers that may hold something of a base that is not `readable`: id of the step -> the base.

    Such is an answer about that base, and one for which the model saw a turn about it.

    Args:
        rows: The chat's turns in their order.
    """
    found: dict[str, str] = {}
    for number, row in enumerate(rows):
        seen = [each["kb"] for each in rows[min(row["first"], number) : number + 1]]
        lost = next((kb for kb in reversed(seen) if kb and kb not in readable), None)
        if lost is not None:
            found[row["stepId"]] = lost
    return found


def _ids(stored: bytes) -> tuple[int, ...]:
    ids = array("i")
    ids.frombytes(stored)
    return tuple(ids)
