"""Conversations that outlive their session: the next prompt of a resumed chat begins with the very ids of the last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from chainlit.types import Feedback
from chats import Kept, chatting, person, step
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from library import LIBRARY, write
from postgresql import emptied, served

from app.answer import Answer
from app.assistant import Assistant
from app.conversation import Conversation, Turn
from app.history.turns import conversation_of
from app.page.documents import Choice
from app.page.history import keeper, picked_last
from engine.fake import FakeEngine

MODEL = "m"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
async def kept(request: pytest.FixtureRequest, address: str, tmp_path: Path) -> AsyncIterator[Kept]:
    made = Kept("sqlite" if request.param == "sqlite" else emptied(address), tmp_path / "home")
    yield made
    await made.close()


TURNS = st.lists(
    st.builds(
        Turn,
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
        st.lists(st.integers(0, 2**31 - 1), max_size=12).map(tuple),
        st.sampled_from(["d1", "d2"]),
        st.lists(st.integers(1, 900), max_size=3).map(tuple),
        st.sampled_from(["default", "harbour"]),
    ),
    max_size=6,
)


@given(turns=TURNS, room=st.integers(0, 40))
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
async def test_a_conversation_comes_back_as_it_was(kept: Kept, turns: list[Turn], room: int) -> None:
    """Each turn with its ids, and which of them the model still sees: else the first question after would be cold."""
    history, conversation = kept.first, Conversation()
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        await history.create_step(step(thread_id))
        keep = keeper(history, thread_id, conversation, MODEL)
        for number, turn in enumerate(turns):
            conversation.history_ids(room)
            conversation.add(turn)
            await keep(f"{thread_id}-{number}")
    again = await conversation_of(history.database, thread_id, MODEL)
    assert again == conversation
    assert again.history_ids(room) == conversation.history_ids(room)
    assert await history.bases_of(thread_id) == tuple(sorted({turn.kb for turn in turns}))
    assert kept.unsaved == []


async def test_ids_of_another_model_are_searched_with_but_not_shown(kept: Kept) -> None:
    """They mean other words to it."""
    history, conversation = kept.first, Conversation()
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        await history.create_step(step(thread_id))
        for number, model in enumerate(["old", "old", "new"]):
            conversation.add(Turn(f"And {number}?", (number,), "d", (1,)))
            await keeper(history, thread_id, conversation, model)(f"s{number}")
    again = await conversation_of(history.database, thread_id, "new")
    assert again.history_ids(100) == (2,)
    assert again.earlier_questions() == ("And 0?", "And 1?", "And 2?")
    assert (await conversation_of(history.database, thread_id, "other")).history_ids(100) == ()


async def test_a_resumed_chat_is_as_warm_as_one_that_went_on(
    kept: Kept, assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """The whole former prompt is found in the cache, and of the answer what fills a block."""
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    history, conversation = kept.first, Conversation()
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        await history.create_step(step(thread_id))
        for number, question in enumerate(["When does the reading room open?", "And on Sundays?"]):
            await asked(assistant, question, conversation)
            await keeper(history, thread_id, conversation, MODEL)(f"s{number}")
    former = engine.calls[-1].prompt
    resumed = await conversation_of(kept.open().database, thread_id, MODEL)
    answer = await asked(assistant, "What does a lost card cost?", resumed)
    assert answer.receipt is not None
    assert answer.receipt.cached_tokens is not None
    block = engine.cache.block_size
    assert answer.receipt.cached_tokens >= former.num_tokens // block * block
    now = engine.calls[-1].prompt
    assert now.prefix == former.prefix
    assert now.tail_ids[: len(former.tail_ids)] == former.tail_ids


async def asked(assistant: Assistant, question: str, conversation: Conversation) -> Answer:
    events = [event async for event in assistant.ask(question, conversation=conversation)]
    assert isinstance(events[-1], Answer)
    return events[-1]


async def test_the_turn_of_a_chat_that_was_deleted_is_dropped(kept: Kept) -> None:
    """Its page may still be open and its answer on the way."""
    history, conversation = kept.first, Conversation([Turn("Q", (1,), "d", (1,))])
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        await history.create_step(step(thread_id))
        await history.delete_thread(thread_id)
        await keeper(history, thread_id, conversation, MODEL)("s")
    assert kept.unsaved == []
    assert (await conversation_of(history.database, thread_id, MODEL)).turns == []


async def test_a_chat_that_is_cut_back_holds_nothing_of_what_came_after(kept: Kept) -> None:
    """Steps, turns, ratings and elements after the question go; the question, what was before, and other chats stay."""
    history, conversation = kept.first, Conversation()
    ada = await person(history, "ada")
    async with chatting(ada) as other:
        await history.create_step(step(other, id="elsewhere"))
    async with chatting(ada) as thread_id:
        for number in range(3):
            await history.create_step(step(thread_id, id=f"q{number}"))
            await history.create_step(step(thread_id, id=f"run{number}", type="run", parentId=f"q{number}"))
            await history.create_step(step(thread_id, id=f"a{number}", type="assistant_message"))
            conversation.add(Turn(f"Question {number}?", (number,), "d", (1,)))
            await keeper(history, thread_id, conversation, MODEL)(f"a{number}")
            await history.upsert_feedback(Feedback(forId=f"a{number}", value=1))
        await history.cut_back(thread_id, "q1")
        await history.cut_back(thread_id, "elsewhere")  # not of this chat
    conversation.cut_back({"a1", "a2"})
    whole = await history.get_thread(thread_id)
    assert whole is not None
    assert [each["id"] for each in whole["steps"]] == ["q0", "run0", "a0", "q1"]
    assert [bool(each["feedback"]) for each in whole["steps"] if each["id"] == "a0"] == [True]
    assert await history.author_of_feedback("a1") == ""
    assert await conversation_of(history.database, thread_id, MODEL) == conversation
    assert await history.get_step("elsewhere") is not None
    assert kept.unsaved == []


async def test_a_chat_is_cut_back_by_its_own_page_alone(kept: Kept) -> None:
    """Ids come from the browser."""
    history = kept.first
    ada = await person(history, "ada")
    async with chatting(ada) as thread_id:
        await history.create_step(step(thread_id, id="q"))
        await history.create_step(step(thread_id, id="a", type="assistant_message"))
    async with chatting(ada):
        await history.cut_back(thread_id, "q")
    assert await history.get_step("a") is not None


def test_what_the_last_question_was_about_is_picked_again() -> None:
    steps = [step("t", modes={"document": "harbour/d1"}), step("t", type="assistant_message")]
    assert picked_last({"steps": steps}) == Choice("harbour", "d1")
    assert picked_last({"steps": [step("t", modes={"document": "harbour/all"})]}) == Choice("harbour", None)
    assert picked_last({"steps": [*steps, step("t", modes=None)]}) is None
    assert picked_last({"steps": []}) is None
