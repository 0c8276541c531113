"""Decides what is kept of a chat, as tables that are the same in SQLite and PostgreSQL, and how older ones grow up.

Column names are Chainlit's: its page gets them as they are. What a later Chainlit adds to a step or an element lands in
`more` and comes back, where a table without that column would refuse the whole row.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    insert,
    inspect,
    select,
    update,
)

from app.problem import Problem


class Words(TypeDecorator[str]):
    """Text of any origin: PostgreSQL takes no NUL, and neither database half of a surrogate pair."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def _json(name: str) -> Column[object]:
    return Column(name, JSON(none_as_null=True))


def _thread() -> Column[str]:
    return Column("threadId", Text, ForeignKey("threads.id", ondelete="CASCADE"), nullable=False)


def _number() -> Column[int]:
    """Tells the order in which rows came: the page loses a step that comes before its parent."""
    return Column("number", Integer, primary_key=True, autoincrement=True)


METADATA = MetaData()
SCHEMA = Table("history_schema", METADATA, Column("version", Integer, nullable=False))
USERS = Table(
    "users",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("identifier", Text, nullable=False, unique=True),
    Column("createdAt", Text, nullable=False),
    _json("metadata"),
)
THREADS = Table(
    "threads",
    METADATA,
    _number(),
    Column("id", Text, nullable=False, unique=True),
    Column("createdAt", Text, nullable=False),
    Column("updatedAt", Text, nullable=False),
    Column("name", Words),
    Column("userId", Text, ForeignKey("users.id", ondelete="CASCADE")),
    Column("userIdentifier", Text),
    _json("tags"),
    _json("metadata"),
    Column("sharedAt", Text),
    Index("threads_of_user", "userId", "updatedAt"),
)
STEPS = Table(
    "steps",
    METADATA,
    _number(),
    Column("id", Text, nullable=False, unique=True),
    _thread(),
    Column("parentId", Text),
    Column("name", Words),
    Column("type", Text),
    Column("command", Words),
    _json("modes"),
    Column("streaming", Boolean),
    Column("waitForAnswer", Boolean),
    Column("isError", Boolean),
    _json("metadata"),
    _json("tags"),
    Column("input", Words),
    Column("output", Words),
    Column("createdAt", Text),
    Column("start", Text),
    Column("end", Text),
    _json("generation"),
    _json("showInput"),
    Column("defaultOpen", Boolean),
    Column("autoCollapse", Boolean),
    Column("language", Text),
    Column("icon", Text),
    _json("more"),
    Index("steps_of_thread", "threadId", "number"),
)
ELEMENTS = Table(
    "elements",
    METADATA,
    _number(),
    Column("id", Text, nullable=False, unique=True),
    _thread(),
    Column("forId", Text),
    Column("type", Text),
    Column("chainlitKey", Text),
    Column("url", Text),
    Column("objectKey", Text),
    Column("name", Words),
    Column("display", Text),
    Column("size", Text),
    Column("language", Text),
    Column("page", Integer),
    _json("props"),
    Column("autoPlay", Boolean),
    _json("playerConfig"),
    Column("mime", Text),
    _json("more"),
    Index("elements_of_thread", "threadId"),
)
FEEDBACKS = Table(
    "feedbacks",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("forId", Text, nullable=False, unique=True),
    _thread(),
    Column("value", Integer, nullable=False),
    Column("comment", Words),
    Index("feedbacks_of_thread", "threadId"),
)
TURNS = Table(
    "turns",
    METADATA,
    _number(),
    _thread(),
    Column("stepId", Text, nullable=False, unique=True),
    Column("question", Words, nullable=False),
    Column("ids", LargeBinary, nullable=False),
    Column("kb", Words, nullable=False),
    Column("docId", Text, nullable=False),
    _json("sections"),
    Column("first", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Index("turns_of_thread", "threadId"),
)

# What each version brought. A new one is added at the end; the tables above are always those of the newest.
VERSIONS: tuple[tuple[Table, ...], ...] = (
    (USERS, THREADS, STEPS, ELEMENTS, FEEDBACKS),
    (TURNS,),
)


def bring_up_to_date(connection: Connection, versions: tuple[tuple[Table, ...], ...] = VERSIONS) -> int:
    """Makes what is missing and returns the version that was there before, 0 for none. In the caller's transaction.

    Raises:
        Problem: `newer_history` where a later readonce wrote it.
    """
    if not inspect(connection).has_table(SCHEMA.name):
        METADATA.create_all(connection, [SCHEMA])
    found = connection.scalar(select(SCHEMA.c.version))
    if found is None:
        connection.execute(insert(SCHEMA).values(version=0))
    before = found or 0
    if before > len(versions):
        raise Problem(
            "newer_history",
            f"The chats were written by a newer readonce (version {before}, this one knows {len(versions)}): update"
            " readonce, or name another database in `history`.",
        )
    for tables in versions[before:]:
        METADATA.create_all(connection, list(tables))
    connection.execute(update(SCHEMA).values(version=len(versions)))
    return before
