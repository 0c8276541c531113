"""Decides how Chainlit's page keeps chats and gets them back: all of a chat or a sentence that says what is missing.

Chainlit's own SQL layer loses on SQLite what is a list or a dictionary, names columns that its documented tables lack,
reads every chat whole for each line of the sidebar, and passes over writes that fail. What it does right is inherited.

    layer, chats (Chainlit's calls) -> rows -> database, schema
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

from chainlit.data.utils import queue_until_user_message
from chainlit.types import Feedback
from chainlit.utils import utc_now
from sqlalchemy import Connection, and_, delete, select

from app.history.chats import Chats, session_thread
from app.history.files import object_key
from app.history.rows import element_dict, element_row, feedback_of, step_dict_of, step_row, upsert
from app.history.schema import ELEMENTS, FEEDBACKS, STEPS, THREADS, TURNS
from app.history.turns import turn_row
from app.problem import Problem

if TYPE_CHECKING:
    from chainlit.element import Element, ElementDict
    from chainlit.step import StepDict

    from app.conversation import Conversation


class History(Chats):
    """Chainlit's data layer: steps, what people think of them, and elements, of the chats of `Chats`."""

    # ------------------------------------------------------------------ steps

    @queue_until_user_message()  # type: ignore[untyped-decorator]
    async def create_step(self, step_dict: StepDict) -> None:
        row = step_row(step_dict)
        # Chainlit gives no time to a message that was streamed; it keeps that of its first row.
        is_timed = bool(row.get("createdAt"))
        change = [name for name in row if name != "id" and (is_timed or name != "createdAt")]
        row["createdAt"] = row.get("createdAt") or utc_now()
        await self._save(step_dict["threadId"], lambda at: upsert(at, STEPS, row, "id", change))

    @queue_until_user_message()  # type: ignore[untyped-decorator]
    async def update_step(self, step_dict: StepDict) -> None:
        await self.create_step(step_dict)

    @queue_until_user_message()  # type: ignore[untyped-decorator]
    async def delete_step(self, step_id: str) -> None:
        """Takes a step out with its elements and feedback; only of the chat that is open, where one is."""
        thread_id = session_thread()

        def work(connection: Connection) -> list[str]:
            keys = select(ELEMENTS.c.objectKey).where(ELEMENTS.c.forId == step_id)
            found = [key for key in connection.scalars(keys) if key]
            for table, column in ((FEEDBACKS, FEEDBACKS.c.forId), (ELEMENTS, ELEMENTS.c.forId), (STEPS, STEPS.c.id)):
                query = delete(table).where(column == step_id)
                connection.execute(query if thread_id is None else query.where(table.c.threadId == thread_id))
            return found

        for key in await self._save(thread_id, work) or []:
            await self.files.delete_file(key)

    async def cut_back(self, thread_id: str, step_id: str) -> None:
        """Takes out of the open chat all that came after a step: steps, turns, elements, ratings, files."""

        def work(connection: Connection) -> list[str]:
            at = select(STEPS.c.number).where(STEPS.c.id == step_id, STEPS.c.threadId == thread_id).scalar_subquery()
            later = select(STEPS.c.id).where(STEPS.c.threadId == thread_id, STEPS.c.number > at)
            keys = select(ELEMENTS.c.objectKey).where(ELEMENTS.c.forId.in_(later))
            found = [key for key in connection.scalars(keys) if key]
            for column in (FEEDBACKS.c.forId, ELEMENTS.c.forId, TURNS.c.stepId, STEPS.c.id):
                connection.execute(delete(column.table).where(column.in_(later)))
            return found

        for key in await self._save(thread_id, work) or []:
            await self.files.delete_file(key)

    async def get_step(self, step_id: str) -> StepDict | None:
        def work(connection: Connection) -> StepDict | None:
            row = connection.execute(select(STEPS).where(STEPS.c.id == step_id)).mappings().first()
            query = select(FEEDBACKS).where(FEEDBACKS.c.forId == step_id)
            feedback = connection.execute(query).mappings().first()
            return None if row is None else step_dict_of(dict(row), feedback_of(dict(feedback)) if feedback else None)

        return await self.database.read(work)

    async def keep_turn(self, thread_id: str, step_id: str, conversation: Conversation, model: str) -> None:
        """Keeps the conversation's last turn beside the step that shows its answer; what fails is told in the chat."""
        row = turn_row(thread_id, step_id, conversation, model)
        await self._save(thread_id, lambda at: upsert(at, TURNS, row, "stepId"))

    # ------------------------------------------------------------------ feedback

    async def upsert_feedback(self, feedback: Feedback) -> str:
        """One feedback a step: a second one takes the first one's place and keeps its id.

        Raises:
            Problem: `no_such_step`; `history_unreachable`.
        """

        def work(connection: Connection) -> str:
            thread_id = connection.scalar(select(STEPS.c.threadId).where(STEPS.c.id == feedback.forId))
            if thread_id is None:
                raise Problem("no_such_step", "This answer is not in the kept chats: reload the page.")
            row = {
                "id": feedback.id or str(uuid.uuid4()),
                "forId": feedback.forId,
                "threadId": thread_id,
                "value": feedback.value,
                "comment": feedback.comment,
            }
            upsert(connection, FEEDBACKS, row, "forId", change=["value", "comment"])
            return str(connection.scalar(select(FEEDBACKS.c.id).where(FEEDBACKS.c.forId == feedback.forId)))

        return await self.database.write(work)

    async def author_of_step(self, step_id: str) -> str:
        """The identifier of whose chat the step is in; empty where there is none."""
        query = select(THREADS.c.userIdentifier).join(STEPS, STEPS.c.threadId == THREADS.c.id)
        query = query.where(STEPS.c.id == step_id)
        return await self.database.read(lambda connection: connection.scalar(query)) or ""

    async def author_of_feedback(self, feedback_id: str) -> str:
        """As `author_of_step`."""
        query = select(THREADS.c.userIdentifier).join(FEEDBACKS, FEEDBACKS.c.threadId == THREADS.c.id)
        query = query.where(FEEDBACKS.c.id == feedback_id)
        return await self.database.read(lambda connection: connection.scalar(query)) or ""

    # ------------------------------------------------------------------ elements

    @queue_until_user_message()  # type: ignore[untyped-decorator]
    async def create_element(self, element: Element) -> None:
        """Keeps an element: its properties as a row, its content as a file.

        Of a file that a person dropped the name is kept alone. The library has its text, and what is removed there must
        not live on in a chat.
        """
        if not element.for_id:
            return

        def work(connection: Connection) -> None:
            values = element.to_dict()
            if element.path is not None and element.chainlit_key == element.id:  # dropped by a person
                values["chainlitKey"] = None
            elif element.type != "custom" and element.content:
                key = object_key(element.thread_id, element.id)
                values["objectKey"], values["url"] = key, self.files.keep(key, element.content)
            upsert(connection, ELEMENTS, element_row(values), "id")

        await self._save(element.thread_id, work)

    async def get_element(self, thread_id: str, element_id: str) -> ElementDict | None:
        query = select(ELEMENTS).where(ELEMENTS.c.threadId == thread_id, ELEMENTS.c.id == element_id)
        row = await self.database.read(lambda connection: connection.execute(query).mappings().first())
        if row is None or row["forId"] in await self.withheld(thread_id):
            return None
        return element_dict(dict(row))

    @queue_until_user_message()  # type: ignore[untyped-decorator]
    async def delete_element(self, element_id: str, thread_id: str | None = None) -> None:
        thread_id = thread_id or session_thread()
        if thread_id is None:
            return
        meant = and_(ELEMENTS.c.id == element_id, ELEMENTS.c.threadId == thread_id)

        def work(connection: Connection) -> str | None:
            key = connection.scalar(select(ELEMENTS.c.objectKey).where(meant))
            connection.execute(delete(ELEMENTS).where(meant))
            return cast("str | None", key)

        key = await self._save(thread_id, work)
        if key:
            await self.files.delete_file(key)
