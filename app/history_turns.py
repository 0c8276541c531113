"""Decides how a conversation outlives its session: each turn's raw ids beside the step that shows its answer.

With them the next prompt of a resumed chat begins with the very ids of the one before, which the engine has cached.
"""

from __future__ import annotations

from array import array
from typing import Any

from sqlalchemy import select

from app.conversation import Conversation, Turn
from app.history_database import Database
from app.history_schema import TURNS


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
    async with database.reading() as connection:
        rows = list((await connection.execute(query)).mappings())
    turns = [Turn(row["question"], _ids(row["ids"]), row["docId"], tuple(row["sections"])) for row in rows]
    foreign = [number for number, row in enumerate(rows, 1) if row["model"] != model]
    first = max(rows[-1]["first"] if rows else 0, foreign[-1] if foreign else 0)
    return Conversation(turns, first)


def _ids(stored: bytes) -> tuple[int, ...]:
    ids = array("i")
    ids.frombytes(stored)
    return tuple(ids)
