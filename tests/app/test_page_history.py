"""What the page says of chats that can't be kept or brought back: one line a question, in the reader's language."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from chainlit.context import ChainlitContext, context_var
from chainlit.session import ws_sessions_id
from chats import Kept, chatting, person, step

from app.history.database import Database
from app.history.files import LocalFiles
from app.history.layer import History
from app.page.documents import Choice
from app.page.history import Unsaved, is_open_elsewhere, leave, open_history, resumed
from app.problem import Problem
from app.settings import Settings


@pytest.fixture
async def broken(tmp_path: Path) -> AsyncIterator[tuple[History, Unsaved, Path]]:
    """A history whose file can't be made: a folder lies in its place."""
    (tmp_path / "chats.sqlite3").mkdir()
    unsaved = Unsaved(tmp_path)
    history = History(Database("sqlite", tmp_path), LocalFiles(tmp_path), unsaved)
    yield history, unsaved, tmp_path
    await history.close()


def emitted() -> list[dict[str, Any]]:
    """The lines that the open page was sent, collected from now on."""
    lines: list[dict[str, Any]] = []

    async def emit(event: str, data: Any) -> None:
        if event == "new_message":
            lines.append(data)

    context_var.get().session.emit = emit  # type: ignore[union-attr]
    return lines


async def test_a_lost_write_is_one_line_a_question_and_each_is_in_the_log(
    broken: tuple[History, Unsaved, Path],
) -> None:
    """The line is only shown: keeping it would fail as well."""
    history, _, home = broken
    async with chatting(None) as thread_id:
        context_var.get().session.environ = {"HTTP_ACCEPT_LANGUAGE": "zh-CN"}  # type: ignore[attr-defined]
        lines = emitted()
        for number in range(2):
            context_var.set(ChainlitContext(context_var.get().session))
            await history.create_step(step(thread_id))
            await asyncio.create_task(history.create_step(step(thread_id)))  # as Chainlit keeps the question
            assert len(lines) == number + 1
        assert lines[0]["isError"] is True
        assert lines[0]["output"].startswith("此对话未能保存")
        assert "chats.sqlite3" in lines[0]["output"]
    log = (home / "logs" / "page.log").read_text()
    assert log.count(f"chat {thread_id} was not kept: The chats in ") == 4


async def test_a_chat_that_cannot_be_brought_back_says_so_below_what_can(
    broken: tuple[History, Unsaved, Path],
) -> None:
    """It can be read and goes on with an empty conversation."""
    history, _, home = broken
    async with chatting(None) as thread_id:
        thread = {"id": thread_id, "steps": [step(thread_id, modes={"document": "default/d1"})]}
        settings = Settings.load(home=home)
        conversation, picked = await resumed(history, thread, settings, "en")
    assert conversation.turns == []
    assert picked == Choice("default", "d1")
    assert thread["steps"][-1]["isError"] is True  # type: ignore[index]
    assert "does not build on it" in thread["steps"][-1]["output"]  # type: ignore[index]


async def test_a_resumed_chat_shows_what_was_still_being_written(tmp_path: Path) -> None:
    """Chainlit reads the chat before it asks: what was on the way then is there too."""
    kept = Kept("sqlite", tmp_path)
    history = kept.first
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        await history.create_step(step(thread_id))
        thread: Any = await history.get_thread(thread_id)
        await history.create_step(step(thread_id, type="assistant_message", output="23 crowns"))
        await resumed(history, thread, Settings.load(home=tmp_path), "en")
    assert [each["output"] for each in thread["steps"]] == ["What does the ferry cost?", "23 crowns"]
    await kept.close()


async def test_only_an_answer_whose_page_is_gone_is_stopped_by_a_resume(tmp_path: Path) -> None:
    """What had come is waited for; a second page on the same chat goes on."""
    kept = Kept("sqlite", tmp_path)
    ada = await person(kept.first, "ada")
    ended: list[str] = []

    async def answer(name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(name)

    async with chatting(ada) as thread_id, chatting(ada, thread_id):
        first, second = (each for each in ws_sessions_id.values() if each.thread_id == thread_id)
        first.current_task = asyncio.create_task(answer("first"))
        second.current_task = asyncio.create_task(answer("second"))
        await asyncio.sleep(0)
        leave(first)
        assert is_open_elsewhere(first)
        assert not is_open_elsewhere(second)
        async with chatting(ada, thread_id):
            await resumed(kept.first, {"id": thread_id, "steps": []}, Settings.load(home=tmp_path), "en")
        assert ended == ["first"]
        leave(second)
        second.restore("another socket")
        async with chatting(ada, thread_id):
            await resumed(kept.first, {"id": thread_id, "steps": []}, Settings.load(home=tmp_path), "en")
        assert ended == ["first"]
        second.current_task.cancel()
    await kept.close()


@pytest.mark.parametrize("value", ["mysql://x/y", "faiss", "chats.db"])
def test_a_database_that_is_neither_is_refused_and_not_shown(value: str) -> None:
    """It may hold a password."""
    with pytest.raises(Problem, match="it takes sqlite or postgresql://user:password@host/database") as caught:
        Settings.load(history=value)
    assert caught.value.code == "bad_setting"
    assert value not in caught.value.message


async def test_the_setting_chooses_the_database(tmp_path: Path) -> None:
    """By default a file in the home, else the server of that address; nothing is opened yet."""
    unsaved = Unsaved(tmp_path)

    async def readable(name: str) -> None:
        """All of them."""

    here = open_history(Settings.load(home=tmp_path), unsaved, readable, "")
    there = open_history(Settings.load(home=tmp_path, history="postgres://me:secret@db/chats"), unsaved, readable, "")
    assert (here.database.is_sqlite, here.database.file) == (True, tmp_path / "chats.sqlite3")
    assert there.database.engine.url.render_as_string() == "postgresql+psycopg://me:***@db/chats"
    assert not (tmp_path / "chats.sqlite3").exists()
    for history in (here, there):
        await history.close()
