"""Asking again: where a chat goes back to, and what of a browser's words about it is believed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import chainlit as cl
import pytest
from chats import Kept, chatting, person
from hypothesis import given
from hypothesis import strategies as st

from app.conversation import Conversation, Turn
from app.page.again import Way, go_back_to, question_before, question_of
from app.page.documents import Choice
from app.page.history import keeper


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    made = Kept("sqlite", tmp_path / "home")
    yield made
    await made.close()


def message(of: str, kind: str = "assistant_message") -> cl.Message:
    return cl.Message(of, id=of, type=kind)  # type: ignore[arg-type]


async def test_a_chat_goes_back_to_a_question_and_no_further(kept: Kept) -> None:
    """Of three questions the second is asked again: its answer and all that followed leave the chat."""
    history, conversation = kept.first, Conversation()
    async with chatting(await person(history, "ada")) as thread_id:
        for number in range(3):
            for each in (message(f"q{number}", "user_message"), message(f"a{number}")):
                await each.send()
            conversation.add(Turn(f"q{number}", (number,), "d", (1,)))
            await keeper(history, thread_id, conversation, "m")(f"a{number}")
        question = question_before("a1")
        assert question is not None
        assert question.id == "q1"
        await go_back_to(question, history, conversation)
        assert [each.id for each in cl.chat_context.get()] == ["q0", "a0", "q1"]
        assert [turn.answer_id for turn in conversation.turns] == ["a0"]


async def test_only_questions_of_the_open_chat_can_be_asked_again(kept: Kept) -> None:
    """An answer is no question, and another chat's message is not found."""
    async with chatting(await person(kept.first, "ada")):
        cl.chat_context.add(message("elsewhere", "user_message"))
    async with chatting(await person(kept.first, "ada")):
        cl.chat_context.add(message("greeting"))
        cl.chat_context.add(message("q", "user_message"))
        cl.chat_context.add(message("a"))
        assert question_of("a") is None
        assert question_of("elsewhere") is None
        assert question_before("elsewhere") is None
        assert question_before("greeting") is None
        found = question_of("q"), question_before("a")
        assert [each.id for each in found if each is not None] == ["q", "q"]


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=4)
TOLD = st.dictionaries(
    st.sampled_from(["how", "document", "more"]),
    JSON | st.sampled_from(["plain", "afresh", "whole", "default/d1", "default/all"]),
)


@given(JSON | TOLD)
def test_what_a_browser_says_of_the_way_is_one_of_three_or_nothing(told: object) -> None:
    """The whole of a document only with a document; whatever it is, it is read without an error."""
    way = Way.read(told)
    assert way.how in ("plain", "afresh", "whole")
    if way.how == "whole":
        assert way.choice is not None
        assert way.choice.doc_id is not None


async def test_the_way_travels_with_its_message(kept: Kept) -> None:
    async with chatting(await person(kept.first, "ada")):
        asked = message("q", "user_message")
        assert Way.of(asked) == Way()
        for way in (Way("whole", Choice("default", "d1")), Way("afresh"), Way()):
            way.noted(asked)
            assert Way.of(asked) == way
