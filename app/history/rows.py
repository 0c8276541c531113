"""Decides how Chainlit's dictionaries become rows of the chats' tables, and rows dictionaries, with nothing lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from chainlit.types import FeedbackDict, Pagination, ThreadDict, ThreadFilter
from sqlalchemy import Connection, Insert, Table, and_, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from app.history.schema import ELEMENTS, FEEDBACKS, STEPS, THREADS

if TYPE_CHECKING:
    from chainlit.element import ElementDict
    from chainlit.step import StepDict

# A step's feedback has a table of its own, an element's path is the session's.
_ELSEWHERE = {"steps": frozenset({"feedback"}), "elements": frozenset({"path"})}
_OURS = frozenset({"number", "more"})


def step_row(step: StepDict) -> dict[str, Any]:
    return _row(STEPS, dict(step))


def element_row(element: ElementDict) -> dict[str, Any]:
    return _row(ELEMENTS, dict(element))


def step_dict_of(row: Mapping[str, Any], feedback: FeedbackDict | None) -> StepDict:
    values = _values(row) | {"feedback": feedback}
    for name, empty in (("input", ""), ("output", ""), ("metadata", {})):
        if values[name] is None:
            values[name] = empty
    return cast("StepDict", values)


def element_dict(row: Mapping[str, Any]) -> ElementDict:
    return cast("ElementDict", _values(row))


def feedback_of(row: Mapping[str, Any]) -> FeedbackDict:
    return FeedbackDict(forId=row["forId"], id=row["id"], value=row["value"], comment=row["comment"])


def thread_dict(row: Mapping[str, Any], *, is_shared: bool | None = None) -> ThreadDict:
    """A chat without what is in it."""
    metadata = dict(row["metadata"] or {})
    if is_shared:
        metadata |= {"is_shared": True, "shared_at": row["sharedAt"]}
    return ThreadDict(
        id=row["id"],
        createdAt=row["createdAt"],
        name=row["name"],
        userId=row["userId"],
        userIdentifier=row["userIdentifier"],
        tags=row["tags"],
        metadata=metadata,
        steps=[],
        elements=[],
    )


def upsert(
    connection: Connection, table: Table, row: Mapping[str, Any], key: str, change: Sequence[str] | None = None
) -> None:
    """Adds `row`, or changes in the one of the same `key` what `change` names (None: all of it).

    A step or an element of another chat is left as it is, whoever knows its id.
    """
    changed = [name for name in row if name != key] if change is None else change
    connection.execute(_upsert(connection.dialect.name, table, key, tuple(changed)), dict(row))


@cache
def _upsert(dialect: str, table: Table, key: str, changed: tuple[str, ...]) -> Insert:
    """Made once for each kind of row: to put together what belongs to `excluded` takes longer than the write itself."""
    # Both dialects have the same calls for this.
    insert = sqlite.insert if dialect == "sqlite" else cast("Any", postgresql.insert)
    made: sqlite.Insert = insert(table)
    if not changed:
        return made.on_conflict_do_nothing(index_elements=[key])
    guard = table.c.threadId == made.excluded["threadId"] if table in (STEPS, ELEMENTS) else None
    return made.on_conflict_do_update(
        index_elements=[key], set_={name: made.excluded[name] for name in changed}, where=guard
    )


def found_threads(
    connection: Connection, user_id: str, pagination: Pagination, filters: ThreadFilter
) -> list[Mapping[str, Any]]:
    """One row more than the page holds, where there is one; those used last first."""
    query = select(THREADS).where(THREADS.c.userId == user_id)
    if filters.search:
        words = filters.search.lower()
        said = select(STEPS.c.threadId).where(func.lower(STEPS.c.output).contains(words, autoescape=True))
        named = func.lower(THREADS.c.name).contains(words, autoescape=True)
        query = query.where(or_(named, THREADS.c.id.in_(said)))
    if filters.feedback is not None:
        rated = select(FEEDBACKS.c.threadId).where(FEEDBACKS.c.value == filters.feedback)
        query = query.where(THREADS.c.id.in_(rated))
    if pagination.cursor:
        place = select(THREADS.c.updatedAt, THREADS.c.number).where(THREADS.c.id == pagination.cursor)
        last = connection.execute(place).first()
        if last is not None:
            older = and_(THREADS.c.updatedAt == last[0], THREADS.c.number < last[1])
            query = query.where(or_(THREADS.c.updatedAt < last[0], older))
    query = query.order_by(THREADS.c.updatedAt.desc(), THREADS.c.number.desc()).limit(pagination.first + 1)
    return [dict(row) for row in connection.execute(query).mappings()]


def _row(table: Table, values: dict[str, Any]) -> dict[str, Any]:
    names = set(table.c.keys()) - _OURS
    more = {name: value for name, value in values.items() if name not in names | _ELSEWHERE[table.name]}
    return {name: value for name, value in values.items() if name in names} | {"more": more or None}


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _OURS} | (row["more"] or {})
