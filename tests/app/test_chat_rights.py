"""What rights let somebody see of kept chats: answers about a base are there as long as the right to that base is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chainlit as cl
import pytest
from chats import chatting, person, step

from app.conversation import Conversation, Turn
from app.history.database import Database
from app.history.files import LocalFiles
from app.history.layer import History
from app.page.chat_rights import ChatRights
from app.page.history import keeper
from app.people.desk import Desk
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE, no_such_base

LOST = no_such_base("tides").message


class Place:
    """A desk, kept chats and the rights between them."""

    def __init__(self, home: Path) -> None:
        self.desk = Desk.of(Records.open(home))
        for name in ("anna", "ben"):
            self.desk.people.add(OF_THIS_MACHINE, name)
        self.desk.library.create(OF_THIS_MACHINE, "tides", "anna")
        self.desk.library.create(OF_THIS_MACHINE, "rules", "ben")
        self.desk.library.share(OF_THIS_MACHINE, "tides", person="ben")
        self.with_login = True
        self.rights = ChatRights(SimpleNamespace(opened=self._opened), self.desk, lambda: self.with_login)  # type: ignore[arg-type]
        self.history = History(Database("sqlite", home), LocalFiles(home), self._unsaved, self.rights.readable)

    async def _opened(self) -> None:
        """The documents are there."""

    async def _unsaved(self, thread_id: str, error: BaseException) -> None:
        raise error

    async def chat_of_ben(self, *kbs: str, first: int = 0) -> str:
        """A chat with an answer a base, each with a quote beside it; gives its id."""
        ben, conversation = await person(self.history, "ben"), Conversation(first=first)
        async with chatting(ben) as thread_id:
            for kb in kbs:
                await self.history.create_step(step(thread_id, modes={"document": f"{kb}/all"}))
                said = step(thread_id, type="assistant_message", output=f"Out of {kb}.")
                await self.history.create_step(said)
                await self.history.create_element(cl.Text(name="[1]", content=f"quote of {kb}", for_id=said["id"]))
                conversation.add(Turn("When?", (1, 2), "d", (1,), kb))
                await keeper(self.history, thread_id, conversation, "m")(said["id"])
        return thread_id

    async def said(self, thread_id: str) -> list[str]:
        thread = await self.history.get_thread(thread_id)
        assert thread is not None
        return [each["output"] for each in thread["steps"] if each["type"] == "assistant_message"]

    async def elements(self, thread_id: str) -> list[Any]:
        thread = await self.history.get_thread(thread_id)
        assert thread is not None
        return list(thread["elements"] or [])

    def viewed_by(self, name: str, thread_id: str) -> Any:
        return self.rights.may_view(self.history)(thread_id, SimpleNamespace(identifier=name))


@pytest.fixture
async def place(tmp_path: Path, quick_hashes: None) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    yield made
    await made.history.close()


async def test_an_answer_goes_with_the_right_to_its_base_and_comes_back_with_it(place: Place) -> None:
    """In its place stands what is said of a base that is not there; its quotes and their files are gone too."""
    thread_id = await place.chat_of_ben("rules", "tides")
    assert await place.said(thread_id) == ["Out of rules.", "Out of tides."]
    ours, theirs = await place.elements(thread_id)
    place.desk.library.unshare(OF_THIS_MACHINE, "tides", person="ben")
    assert await place.said(thread_id) == ["Out of rules.", LOST]
    assert await place.elements(thread_id) == [ours]
    assert await place.history.get_element(thread_id, theirs["id"]) is None
    assert await place.history.get_element(thread_id, ours["id"]) == ours
    place.desk.library.share(OF_THIS_MACHINE, "tides", person="ben")
    assert await place.said(thread_id) == ["Out of rules.", "Out of tides."]
    assert await place.elements(thread_id) == [ours, theirs]


async def test_an_answer_that_was_given_in_sight_of_another_base_goes_with_that_base(place: Place) -> None:
    """The model may have repeated it; where it saw that turn no more, the answer stays."""
    in_sight = await place.chat_of_ben("tides", "rules")
    out_of_sight = await place.chat_of_ben("tides", "rules", first=1)
    place.desk.library.unshare(OF_THIS_MACHINE, "tides", person="ben")
    assert await place.said(in_sight) == [LOST, LOST]
    assert await place.said(out_of_sight) == [LOST, "Out of rules."]


async def test_a_shared_chat_is_seen_by_those_who_may_read_all_its_bases(place: Place) -> None:
    """Looked up each time; to others it is not there, and neither is one that is not shared."""
    thread_id = await place.chat_of_ben("rules", "tides")
    assert not await place.viewed_by("anna", thread_id)
    await place.history.update_thread(thread_id, metadata={"is_shared": True})
    assert not await place.viewed_by("anna", thread_id)
    place.desk.library.share(OF_THIS_MACHINE, "rules", person="anna")
    assert await place.viewed_by("anna", thread_id)
    assert not await place.viewed_by("nobody", thread_id)
    place.desk.people.disable(OF_THIS_MACHINE, "anna")
    assert not await place.viewed_by("anna", thread_id)


async def test_who_sits_at_the_machine_keeps_all_that_was_said(place: Place) -> None:
    """A base that was removed is no right that was lost."""
    place.with_login = False
    thread_id = await place.chat_of_ben("gone")
    assert await place.said(thread_id) == ["Out of gone."]
    place.with_login = True
    assert await place.said(thread_id) == [no_such_base("gone").message]
