"""Kept chats on both databases: what goes in comes back in another life of the server, or the person hears of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chainlit as cl
import pytest
from chainlit.types import Feedback, Pagination, ThreadFilter
from chats import Kept, chatting, person, step
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from locked_file import LockedFile
from postgresql import emptied, served
from sqlalchemy import Connection, Executable, event, select, text

from app.history.database import Database
from app.history.layer import History
from app.history.rows import step_dict_of, step_row
from app.history.schema import SCHEMA, VERSIONS, bring_up_to_date
from app.problem import Problem

KINDS = ["sqlite", "postgresql"]


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """The setting of each kind; the server starts with the first test that wants it."""
    with served() as address:
        yield {"sqlite": "sqlite", "postgresql": address}


@pytest.fixture(params=KINDS)
async def kept(request: pytest.FixtureRequest, addresses: dict[str, str], tmp_path: Path) -> AsyncIterator[Kept]:
    setting = addresses[request.param]
    made = Kept(setting if request.param == "sqlite" else emptied(setting), tmp_path / "home")
    yield made
    await made.close()


async def chats_of(history: History, user_id: str, **filters: Any) -> list[dict[str, Any]]:
    page = await history.list_threads(Pagination(first=20), ThreadFilter(userId=user_id, **filters))
    return [dict(thread) for thread in page.data]


async def found(history: History, query: Executable) -> Any:
    """One value, past the layer."""
    return await history.database.read(lambda connection: connection.scalar(query))


async def done(history: History, statement: str) -> None:
    """One change, past the layer."""
    await history.database.write(lambda connection: connection.execute(text(statement)).rowcount)


async def test_every_field_of_a_step_comes_back_after_a_restart(kept: Kept) -> None:
    """Lists, dictionaries, booleans and what a later Chainlit may add; what is not text in a database is replaced."""
    history = kept.open()
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        asked = step(
            thread_id,
            modes={"document": "d1"},
            tags=["law", "2026"],
            metadata={"icon": "search", "deep": {"list": [1, None, "\u5b57"]}},
            generation={"model": "m", "tokens": 3},
            showInput="json",
            defaultOpen=True,
            autoCollapse=False,
            icon="x",
            waitForAnswer=True,
            later={"than": "this"},
            output="\u6e21\u8f6e\u591a\u5c11\u94b1? \U0001f6a2 'quoted' \"twice\" %s :name",
        )
        await history.create_step(asked)
        await history.create_step(step(thread_id, output="nul \0 half \ud83d", createdAt="2026-05-01T08:00:01Z"))
        await history.update_thread(thread_id, name="Ferry", user_id=ada.id, tags=["a", "b"], metadata={"kb": "law"})
    thread = await kept.open().get_thread(thread_id)
    assert thread is not None
    assert thread["steps"][0] == asked | {"command": None, "feedback": None}
    assert thread["steps"][1]["output"] == "nul \N{REPLACEMENT CHARACTER} half ?"
    assert (thread["name"], thread["userIdentifier"], thread["tags"]) == ("Ferry", "ada", ["a", "b"])
    assert thread["metadata"] == {"kb": "law"}
    assert kept.unsaved == []


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
KEY = st.text(st.characters(codec="ascii"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=6,
)


@given(
    tags=st.none() | st.lists(TEXT, max_size=3),
    modes=st.none() | st.dictionaries(KEY, TEXT, max_size=3),
    metadata=st.dictionaries(KEY, JSON, max_size=3),
    output=TEXT,
)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
async def test_no_step_is_changed_by_being_kept(
    kept: Kept, tags: list[str] | None, modes: dict[str, str] | None, metadata: dict[str, Any], output: str
) -> None:
    """Written, changed and read, whatever its lists and dictionaries hold."""
    history = kept.first
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        first = step(thread_id)
        await history.create_step(first)
        changed = first | {"tags": tags, "modes": modes, "metadata": metadata, "output": output}
        await history.update_step(changed)
        found = await history.get_step(first["id"])
    assert found is not None
    assert {key: value for key, value in found.items() if key in changed or value is not None} == changed
    assert kept.unsaved == []


async def test_elements_come_back_with_their_content_and_properties(kept: Kept) -> None:
    """Text as a file behind an address, a page element with its properties; a dropped file by its name alone."""
    history = kept.open()
    ada = await person(history, "ada")
    dropped = kept.home.parent / "report.pdf"
    dropped.write_bytes(b"%PDF-1.7")
    async with chatting(ada) as thread_id:
        asked = step(thread_id)
        await history.create_step(asked)
        quote = cl.Text(name="[1] report.pdf", content="The ferry costs 23 crowns.", display="page", for_id=asked["id"])
        foot = cl.CustomElement(name="AnswerFoot", props={"sources": {"[1]": {"page": 3}}}, for_id=asked["id"])
        upload = cl.Pdf(name="../report.pdf", path=str(dropped), for_id=asked["id"], id="u1", chainlit_key="u1", page=2)
        for element in (quote, foot, upload):
            await history.create_element(element)
        foot.props = {"sources": {}}
        await history.create_element(foot)
    assert kept.unsaved == []
    again = kept.open()
    thread = await again.get_thread(thread_id)
    assert thread is not None
    text_, custom, file = thread["elements"]
    assert text_["url"] == f"/readonce/kept/{thread_id}/{quote.id}"
    assert again.files.path(text_["objectKey"]).read_text() == "The ferry costs 23 crowns."
    assert (custom["name"], custom["props"], custom["forId"]) == ("AnswerFoot", {"sources": {}}, asked["id"])
    assert (file["name"], file["type"], file["page"], file["url"]) == ("../report.pdf", "pdf", 2, None)
    assert await again.get_element(thread_id, foot.id) == custom
    assert [path.name for path in (kept.home / "chats").rglob("*") if path.is_file()] == [quote.id]


async def test_writes_take_effect_in_the_order_in_which_they_were_asked_for(kept: Kept) -> None:
    """Chainlit starts each in a task of its own; a message that was taken back stays away, the last text stays."""
    history = kept.open()
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        stays, goes = step(thread_id), step(thread_id)
        tasks = [asyncio.create_task(history.create_step(dict(each))) for each in (stays, goes)]
        tasks += [asyncio.create_task(history.update_step(stays | {"output": f"text {n}"})) for n in range(20)]
        tasks.append(asyncio.create_task(history.delete_step(goes["id"])))
        await history.database.settled()
        thread = await history.get_thread(thread_id)
        assert thread is not None
        assert [(each["id"], each["output"]) for each in thread["steps"]] == [(stays["id"], "text 19")]
        await asyncio.gather(*tasks)


async def test_writes_that_wait_are_kept_in_one_transaction(kept: Kept) -> None:
    """An answer's steps and sources, and what other people's chats bring meanwhile; each is on disk once it returns."""
    history = kept.open()
    ada = await person(history, "ada")
    commits: list[Connection] = []
    event.listen(history.database.engine, "commit", commits.append)
    async with chatting(ada) as thread_id:
        steps = [step(thread_id) for _ in range(30)]
        await asyncio.gather(*(history.create_step(each) for each in steps))
        assert len(commits) == 1
    thread = await kept.open().get_thread(thread_id)
    assert thread is not None
    assert [each["id"] for each in thread["steps"]] == [each["id"] for each in steps]


async def test_a_write_that_fails_takes_no_other_along(kept: Kept) -> None:
    """Of those that are kept together each is answered for itself; the others are kept in their order."""
    history = kept.open()
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        steps = [step(thread_id) for _ in range(3)]
        refused = step(thread_id, createdAt={"no": "text"})
        await asyncio.gather(*(history.create_step(each) for each in (*steps[:2], refused, steps[2])))
        thread = await history.get_thread(thread_id)
        assert thread is not None
        assert [each["id"] for each in thread["steps"]] == [each["id"] for each in steps]
    assert [told for told, _ in kept.unsaved] == [thread_id]


async def test_a_write_whose_asker_has_gone_is_kept(kept: Kept) -> None:
    """Stop ends who waits for it, and not the write; a chat that is opened again waits for it."""
    history = kept.open()
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        asked = asyncio.create_task(history.create_step(step(thread_id)))
        while not history.database.is_writing:
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await history.database.settled()
        thread = await history.get_thread(thread_id)
        assert thread is not None
        assert len(thread["steps"]) == 1


async def test_what_a_chat_writes_after_the_end_is_kept(kept: Kept) -> None:
    """A session that ends with the server writes last."""
    history = kept.open()
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        await history.create_step(step(thread_id))
        await history.close()
        await history.update_thread(thread_id, name="Fees")
    assert (await kept.open().get_thread(thread_id) or {})["name"] == "Fees"


async def test_a_chat_is_renamed_rated_found_and_deleted_with_all_that_it_had(kept: Kept) -> None:
    history = kept.open()
    ada = await person(history, "ada")
    threads = []
    for number in range(3):
        async with chatting(ada) as thread_id:
            asked = step(thread_id, output=f"Question {number} about 100% of fees")
            await history.create_step(asked)
            await history.update_thread(thread_id, name=f"Chat {number}", user_id=ada.id)
            element = cl.Text(name="q", content="quote", for_id=asked["id"])
            await history.create_element(element)
            threads.append((thread_id, asked["id"]))
    await history.update_thread(threads[0][0], name="Renamed \u6e21\u8f6e")
    first = await history.upsert_feedback(Feedback(forId=threads[1][1], value=1))
    second = await history.upsert_feedback(Feedback(forId=threads[1][1], value=0, comment="wrong page"))
    assert first == second
    rated = await history.get_step(threads[1][1])
    assert rated is not None
    assert rated["feedback"] == {"forId": threads[1][1], "id": first, "value": 0, "comment": "wrong page"}
    assert [chat["name"] for chat in await chats_of(history, ada.id)] == ["Chat 2", "Chat 1", "Renamed \u6e21\u8f6e"]
    assert [chat["name"] for chat in await chats_of(history, ada.id, feedback=0)] == ["Chat 1"]
    assert [chat["name"] for chat in await chats_of(history, ada.id, search="question 2 ABOUT 100%")] == ["Chat 2"]
    assert await chats_of(history, ada.id, search="0_%") == []
    await history.delete_thread(threads[1][0])
    # What an open page of it still writes does not bring it back.
    async with chatting(ada, threads[1][0]) as thread_id:
        await history.create_step(step(thread_id))
        await history.update_thread(thread_id, metadata={"kb": "law"})
    assert [chat["name"] for chat in await chats_of(history, ada.id)] == ["Chat 2", "Renamed \u6e21\u8f6e"]
    for table in ("steps", "elements", "feedbacks", "threads", "turns"):
        column = "id" if table == "threads" else '"threadId"'
        query = text(f"SELECT count(*) FROM {table} WHERE {column} = :id").bindparams(id=threads[1][0])
        assert await found(history, query) == 0, table
    assert len([path for path in (kept.home / "chats").rglob("*") if path.is_file()]) == 2
    assert await history.get_thread_author(threads[1][0]) == ""


async def test_a_session_that_ends_makes_no_chat_that_was_deleted_elsewhere(kept: Kept) -> None:
    """Its metadata are written when the socket goes: to nothing, where another server has deleted the chat."""
    history = kept.open()
    await history.update_thread("gone", metadata={"kb": "law"})
    assert await history.get_thread("gone") is None


async def test_pages_of_the_sidebar_hold_each_chat_once(kept: Kept) -> None:
    """Also where several were used at the same moment; nobody sees another person's."""
    history = kept.open()
    ada, bob = await person(history, "ada"), await person(history, "bob")
    for number in range(7):
        await history.update_thread(f"t{number}", name=str(number), user_id=(bob if number == 3 else ada).id)
    await done(history, "UPDATE threads SET \"updatedAt\" = '2026-05-01T08:00:00Z'")
    seen, cursor = [], None
    while True:
        page = await history.list_threads(Pagination(first=2, cursor=cursor), ThreadFilter(userId=ada.id))
        seen.append([thread["name"] for thread in page.data])
        if not page.pageInfo.hasNextPage:
            break
        cursor = page.pageInfo.endCursor
    assert seen == [["6", "5"], ["4", "2"], ["1", "0"]]


async def test_a_chat_is_opened_to_others_only_by_whoever_asks_whether_they_may(kept: Kept) -> None:
    """Chainlit shows a chat to everybody whose metadata say `is_shared`: they say it to its owner's sidebar alone."""
    history = kept.open()
    ada = await person(history, "ada")
    await history.update_thread("t", name="Fees", user_id=ada.id, metadata={"user": "secret", "chat_profile": "law"})
    await history.update_thread("t", metadata={"is_shared": True, "shared_at": "now"})
    thread = await history.get_thread("t")
    assert thread is not None
    assert thread["metadata"] == {"chat_profile": "law"}
    assert await history.is_shared("t")
    (listed,) = await chats_of(history, ada.id)
    assert listed["metadata"]["is_shared"] is True
    await history.update_thread("t", metadata={"is_shared": False})
    assert not await history.is_shared("t")


async def test_nobody_writes_into_a_chat_that_is_not_open_in_the_session(kept: Kept) -> None:
    """Ids come from the browser, and a shared chat shows them: another's step or element is not replaced by its id."""
    history = kept.open()
    ada, bob = await person(history, "ada"), await person(history, "bob")
    async with chatting(ada) as hers:
        asked = step(hers)
        await history.create_step(asked)
        foot = cl.CustomElement(name="AnswerFoot", props={"receipt": "true"}, for_id=asked["id"])
        await history.create_element(foot)
    async with chatting(bob) as his:
        await history.create_step(step(his))
        for thread_id in (hers, his):
            await history.create_step(asked | {"threadId": thread_id, "output": "forged"})
            forged = cl.CustomElement(name="AnswerFoot", props={"receipt": "forged"}, for_id=asked["id"], id=foot.id)
            forged.thread_id = thread_id
            await history.create_element(forged)
        await history.delete_step(asked["id"])
        await history.delete_element(foot.id, hers)
    thread = await history.get_thread(hers)
    assert thread is not None
    assert [each["output"] for each in thread["steps"]] == [asked["output"]]
    assert [each["props"] for each in thread["elements"] or []] == [{"receipt": "true"}]
    assert await history.author_of_step(asked["id"]) == "ada"


async def test_a_write_that_fails_is_told_and_the_next_one_is_kept(kept: Kept) -> None:
    """Steps, elements and removals of an open chat are told in the chat; a rename is refused to whoever asked."""
    history = kept.open()
    ada = await person(history, "ada")
    await done(history, "ALTER TABLE steps RENAME TO steps_away")
    await done(history, "ALTER TABLE elements RENAME TO elements_away")
    async with chatting(ada) as thread_id:
        asked = step(thread_id)
        await history.create_step(asked)
        await history.create_element(cl.Text(name="q", content="quote", for_id=asked["id"]))
        await history.delete_step(asked["id"])
        assert [told for told, _ in kept.unsaved] == [thread_id] * 3
        assert all("steps" in why or "elements" in why for _, why in kept.unsaved)
        assert all("What does the ferry cost" not in why for _, why in kept.unsaved)
        await done(history, "ALTER TABLE steps_away RENAME TO steps")
        await history.create_step(asked)
        assert len(kept.unsaved) == 3
        assert (await history.get_step(asked["id"]) or {})["output"] == asked["output"]
        await done(history, "ALTER TABLE threads RENAME TO threads_away")
        with pytest.raises(Problem, match="can't be used"):
            await history.update_thread(thread_id, name="Renamed")
        assert len(kept.unsaved) == 4


async def test_a_file_of_the_first_version_grows_up_and_keeps_its_chats(kept: Kept) -> None:
    """What a version lacks is made at start; what a later one wrote is refused and left alone."""
    old = Database(kept.setting, kept.home)
    kept.home.mkdir(exist_ok=True)
    with old.engine.begin() as connection:
        assert bring_up_to_date(connection, VERSIONS[:1]) == 0
        connection.execute(
            text('INSERT INTO threads (id, "createdAt", "updatedAt", name) VALUES (:id, :at, :at, :id)'),
            {"id": "old", "at": "2026-01-01T00:00:00Z"},
        )
    await old.close()
    history = kept.open()
    assert (await history.get_thread("old") or {})["name"] == "old"
    assert await history.bases_of("old") == ()
    assert await found(history, select(SCHEMA.c.version)) == len(VERSIONS)
    await done(history, "UPDATE history_schema SET version = 99")
    with pytest.raises(Problem) as caught:
        await kept.open().get_thread("old")
    assert caught.value.code == "newer_history"


async def test_two_servers_that_start_at_once_make_the_tables_once(kept: Kept) -> None:
    histories = [kept.open() for _ in range(4)]
    await asyncio.gather(*(history.database.open() for history in histories))
    await asyncio.gather(*(person(history, "ada") for history in histories))
    assert await found(histories[0], text("SELECT count(*) FROM users")) == 1
    assert await found(histories[0], text("SELECT count(*) FROM history_schema")) == 1


async def test_a_server_that_starts_while_another_makes_the_file_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says at once that a new file is locked, and waits for nobody, where its log is to be turned on."""
    kept = Kept("sqlite", tmp_path)
    locked = LockedFile(tmp_path / "chats.sqlite3", 1)
    monkeypatch.setattr("engine.cachefile.time", SimpleNamespace(sleep=locked.sleep, monotonic=lambda: 0.0))
    history = kept.open()
    await person(history, "ada")
    assert len(locked.waits) == 1
    assert await found(history, text("PRAGMA journal_mode")) == "wal"
    await kept.close()


async def test_a_sqlite_file_that_another_process_writes_is_waited_for(tmp_path: Path) -> None:
    """A writer that holds the file for a moment costs time, not a message."""
    kept = Kept("sqlite", tmp_path)
    history = kept.open()
    ada = await person(history, "ada")
    other = sqlite3.connect(tmp_path / "chats.sqlite3", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    async with chatting(ada) as thread_id:
        writing = asyncio.create_task(history.create_step(step(thread_id)))
        while not history.database.is_writing:
            await asyncio.sleep(0)
        assert await history.get_thread_author(thread_id) == ""  # readers are not kept waiting
        other.execute("COMMIT")
        await writing
    thread = await history.get_thread(thread_id)
    assert thread is not None
    assert len(thread["steps"]) == 1
    assert kept.unsaved == []
    await kept.close()


async def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    database = Database("postgresql://me:secret@127.0.0.1:9/none", tmp_path)
    with pytest.raises(Problem) as caught:
        await database.open()
    assert caught.value.code == "history_unreachable"
    assert "127.0.0.1" in caught.value.message
    assert "secret" not in caught.value.message
    await database.close()


def test_a_row_holds_every_key_of_a_step() -> None:
    """A key without a column is not lost, and no column is invented for Chainlit."""
    whole = step("t", later=1)
    row = step_row(whole) | {"number": 1}  # type: ignore[arg-type]
    empty = {column.name: None for column in VERSIONS[0][2].c}
    assert {key: value for key, value in step_dict_of(empty | row, None).items() if key in whole} == whole
