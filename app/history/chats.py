"""Decides what a kept chat is to Chainlit: whose, its name, whether it is shared; and who hears of failed writes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from chainlit.context import context_var
from chainlit.data.sql_alchemy import SQLAlchemyDataLayer
from chainlit.types import PageInfo, PaginatedResponse, Pagination, ThreadDict, ThreadFilter
from chainlit.user import PersistedUser, User
from chainlit.utils import utc_now
from sqlalchemy import Connection, bindparam, delete, select, text, update

from app.history.database import Database
from app.history.files import LocalFiles
from app.history.rows import element_dict, feedback_of, found_threads, step_dict_of, thread_dict, upsert
from app.history.schema import ELEMENTS, FEEDBACKS, STEPS, THREADS, TURNS, USERS
from app.history.turns import withheld_steps
from app.people.rights import no_such_base
from app.problem import Problem

# Of what a session holds these come back with the chat; the rest is the session's own, and sharing would show it.
KEPT_METADATA = frozenset({"chat_profile", "chat_settings", "kb", "name"})

_TOUCH = update(THREADS).where(THREADS.c.id == bindparam("chat")).values(updatedAt=bindparam("at"))

T = TypeVar("T")
Unsaved = Callable[[str, BaseException], Awaitable[None]]
"""Takes the chat's id and what went wrong with a write of it, and tells the person."""
Readable = Callable[[str], Awaitable[Collection[str] | None]]
"""Takes whose chats are meant and gives the bases that they may read now; None: whatever there is and was."""


class Chats(SQLAlchemyDataLayer):
    """Chainlit's data layer on one `Database`.

    Writes of a chat that fail are told through `unsaved`, where the person sees them; all others raise `Problem`.
    An answer about a base that the chat's author may not read now is given as that base: as if it were not there.
    """

    def __init__(
        self, database: Database, files: LocalFiles, unsaved: Unsaved, readable: Readable | None = None
    ) -> None:
        super().__init__("sqlite+aiosqlite://", storage_provider=files)  # its engine connects to nothing until used
        self.database = database
        self.files = files
        self._unsaved = unsaved
        self._readable = readable
        self._deleted: set[str] = set()

    async def execute_sql(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]] | int | None:
        """What the inherited methods ask; unlike theirs it does not pass over a failure."""

        def work(connection: Connection) -> list[dict[str, Any]] | int:
            result = connection.execute(text(query), parameters)
            return [dict(row) for row in result.mappings()] if result.returns_rows else result.rowcount

        is_read = query.lstrip()[:6].upper() == "SELECT"
        return await (self.database.read(work) if is_read else self.database.write(work))

    async def get_current_timestamp(self) -> str:
        return str(utc_now())

    # ------------------------------------------------------------------ people

    async def create_user(self, user: User) -> PersistedUser | None:
        """The person of that identifier, made where it is not there; its metadata are those of now."""
        row = {
            "id": str(uuid.uuid4()),
            "identifier": user.identifier,
            "createdAt": utc_now(),
            "metadata": user.metadata,
        }
        await self.database.write(lambda at: upsert(at, USERS, row, "identifier", change=["metadata"]))
        return await self.get_user(user.identifier)

    async def get_thread_author(self, thread_id: str) -> str:
        """The identifier of whose chat that is; empty, which Chainlit answers with 404, where there is none."""
        query = select(THREADS.c.userIdentifier).where(THREADS.c.id == thread_id)
        return await self.database.read(lambda connection: connection.scalar(query)) or ""

    # ------------------------------------------------------------------ chats

    async def update_thread(
        self,
        thread_id: str,
        name: str | None = None,
        user_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        tags: list[str] | None = None,
    ) -> None:
        """Changes what is given; of `metadata` a key with None goes, and a new chat is made only by a name or a person.

        A session that ends would otherwise bring back a chat that was deleted while it was open.
        """
        if thread_id in self._deleted:
            return
        owner = _owner()

        def work(connection: Connection) -> None:
            found = connection.execute(select(THREADS).where(THREADS.c.id == thread_id)).mappings().first()
            if found is None:
                if name is None and user_id is None:
                    return
                _make_thread(connection, thread_id, owner)
            changed: dict[str, Any] = {}
            if name is not None:
                changed["name"] = name
            if user_id is not None:
                identifier = connection.scalar(select(USERS.c.identifier).where(USERS.c.id == user_id))
                changed |= {"userId": user_id, "userIdentifier": identifier}
            if tags is not None:
                changed["tags"] = tags
            if metadata is not None:
                kept = {key: value for key, value in metadata.items() if key in KEPT_METADATA}
                merged = ((found["metadata"] if found else None) or {}) | kept
                changed["metadata"] = {key: value for key, value in merged.items() if value is not None}
                if "is_shared" in metadata:
                    changed["sharedAt"] = utc_now() if metadata["is_shared"] else None
            if changed:
                connection.execute(update(THREADS).where(THREADS.c.id == thread_id).values(changed))

        async with self._telling(thread_id):
            await self.database.write(work)

    async def name_thread(self, thread_id: str, name: str) -> None:
        """Gives a name to a chat that has none."""
        thread = await self.get_thread(thread_id)
        if thread is not None and not thread["name"]:
            await self.update_thread(thread_id, name=name)

    async def delete_thread(self, thread_id: str) -> None:
        """Deletes a chat with all that belongs to it; what its open page still writes is dropped."""
        self._deleted.add(thread_id)
        query = delete(THREADS).where(THREADS.c.id == thread_id)
        await self.database.write(lambda connection: connection.execute(query).rowcount)
        await self.files.delete_thread(thread_id)

    async def get_thread(self, thread_id: str) -> ThreadDict | None:
        """A chat whole. That it is shared is not in its metadata: Chainlit would show it to anybody for that alone."""
        query = select(THREADS).where(THREADS.c.id == thread_id)

        def work(connection: Connection) -> tuple[Any, ...] | None:
            found = connection.execute(query).mappings().first()
            if found is None:
                return None
            steps = _rows(connection, STEPS, thread_id, [STEPS.c.number])
            elements = _rows(connection, ELEMENTS, thread_id, [ELEMENTS.c.number])
            return found, steps, elements, _rows(connection, FEEDBACKS, thread_id, [FEEDBACKS.c.id])

        read = await self.database.read(work)
        if read is None:
            return None
        found, steps, elements, feedbacks = read
        withheld = await self.withheld(thread_id)
        by_step = {row["forId"]: feedback_of(row) for row in feedbacks}
        whole = thread_dict(dict(found))
        whole["steps"] = [step_dict_of(row, by_step.get(row["id"])) for row in steps]
        whole["elements"] = [element_dict(row) for row in elements if row["forId"] not in withheld]
        for step in whole["steps"]:
            if step["id"] in withheld:
                step["output"] = no_such_base(withheld[step["id"]]).message
        return whole

    async def withheld(self, thread_id: str) -> dict[str, str]:
        """The chat's answers that its author may not read now: id of the step -> the base whose it is."""
        readable = await self._readable(await self.get_thread_author(thread_id)) if self._readable else None
        if readable is None:
            return {}
        turns = await self.database.read(lambda connection: _rows(connection, TURNS, thread_id, [TURNS.c.number]))
        return withheld_steps(turns, readable)

    async def is_shared(self, thread_id: str) -> bool:
        query = select(THREADS.c.sharedAt).where(THREADS.c.id == thread_id)
        return await self.database.read(lambda connection: connection.scalar(query)) is not None

    async def bases_of(self, thread_id: str) -> tuple[str, ...]:
        """The bases that the chat's answers were read from."""
        query = select(TURNS.c.kb).where(TURNS.c.threadId == thread_id).distinct().order_by(TURNS.c.kb)
        return await self.database.read(lambda connection: tuple(connection.scalars(query)))

    async def list_threads(self, pagination: Pagination, filters: ThreadFilter) -> PaginatedResponse[ThreadDict]:
        """One page of a person's chats for the sidebar, those used last first, without what is in them.

        Raises:
            Problem: `no_person` where the filter names none.
        """
        if not filters.userId:
            raise Problem("no_person", "Chats are listed for a person who has logged in: log in again.")
        user_id = filters.userId
        found = await self.database.read(lambda connection: found_threads(connection, user_id, pagination, filters))
        threads = [thread_dict(row, is_shared=row["sharedAt"] is not None) for row in found[: pagination.first]]
        info = PageInfo(
            hasNextPage=len(found) > pagination.first,
            startCursor=threads[0]["id"] if threads else None,
            endCursor=threads[-1]["id"] if threads else None,
        )
        return PaginatedResponse(pageInfo=info, data=threads)

    # ------------------------------------------------------------------

    async def close(self) -> None:
        await self.database.settled()
        await self.database.close()

    async def _save(self, thread_id: str | None, work: Callable[[Connection], T]) -> T | None:
        """A write of an open chat: what fails is told in the chat, and the chat goes on. None where nothing was done.

        Only the chat that the session has open can be written (ids come from the browser), and none that was deleted.
        """
        opened, owner = session_thread(), _owner()
        if thread_id is not None and (thread_id in self._deleted or (opened is not None and thread_id != opened)):
            return None

        def kept(connection: Connection) -> T:
            if thread_id is not None:
                _touch(connection, thread_id, owner)
            return work(connection)

        try:
            return await self.database.write(kept)
        except Exception as error:  # Chainlit starts this in a task that nobody waits for.
            await self._unsaved(thread_id or "", error)
            return None

    @asynccontextmanager
    async def _telling(self, thread_id: str) -> AsyncIterator[None]:
        """A change of a chat: what fails is told in the chat where one is open, and to the caller."""
        try:
            yield
        except Exception as error:
            await self._unsaved(thread_id, error)
            raise


def session_thread() -> str | None:
    """The chat that is open where this is called from; None outside of a chat."""
    context = context_var.get(None)
    return None if context is None else context.session.thread_id


def _owner() -> dict[str, str]:
    """Whose chat is made where this is called from, as columns; none where nobody has logged in."""
    context = context_var.get(None)
    user = context.session.user if context is not None else None
    return {"userId": user.id, "userIdentifier": user.identifier} if isinstance(user, PersistedUser) else {}


def _touch(connection: Connection, thread_id: str, owner: Mapping[str, str]) -> None:
    """The chat is used now; it is made where its first step comes before its name."""
    if connection.execute(_TOUCH, {"chat": thread_id, "at": utc_now()}).rowcount == 0:
        _make_thread(connection, thread_id, owner)


def _make_thread(connection: Connection, thread_id: str, owner: Mapping[str, str]) -> None:
    now = utc_now()
    upsert(connection, THREADS, {"id": thread_id, "createdAt": now, "updatedAt": now, **owner}, "id", change=[])


def _rows(connection: Connection, table: Any, thread_id: str, order: Sequence[Any]) -> list[Mapping[str, Any]]:
    query = select(table).where(table.c.threadId == thread_id).order_by(*order)
    return [dict(row) for row in connection.execute(query).mappings()]
