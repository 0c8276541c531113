"""Conversations: they grow at their end, and where room is short, make much at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.conversation import Conversation, Turn


def turn(number: int, length: int = 10) -> Turn:
    return Turn(f"question {number}", tuple(range(number * 1000, number * 1000 + length)), "d", (1,))


def test_history_is_all_turns_in_order_while_there_is_room() -> None:
    """Each history begins with the one before it, id by id."""
    conversation, before = Conversation(), ()
    for number in range(5):
        conversation.add(turn(number))
        now = conversation.history_ids(1000)
        assert now[: len(before)] == before
        assert len(now) == len(before) + 10
        before = now


@given(
    kbs=st.lists(st.sampled_from(["ours", "theirs", "mine", ""]), max_size=8),
    first=st.integers(0, 8),
    readable=st.sets(st.sampled_from(["ours", "theirs", "mine"])),
)
def test_a_base_that_is_not_readable_any_more_leaves_the_model_nothing_of_its_turns(
    kbs: list[str], first: int, readable: set[str]
) -> None:
    """Later turns may repeat it, so they leave too; questions stay, and so does a conversation about other bases."""
    turns = [Turn(f"question {number}", (number,), "d", (1,), kb) for number, kb in enumerate(kbs)]
    conversation = Conversation(list(turns), min(first, len(turns)))
    before = conversation.history_ids(1000)
    conversation.forget_unless(readable)
    is_lost = any(kbs[number] not in readable | {""} for number in before)
    assert conversation.history_ids(1000) == (() if is_lost else before)
    assert conversation.turns == turns
    conversation.add(Turn("and now?", (99,), "d", (1,), ""))
    conversation.forget_unless(readable)
    assert conversation.history_ids(1000) == ((99,) if is_lost else (*before, 99))


def test_questions_to_search_with_go_back_to_one_that_stands_by_itself() -> None:
    """ "and a service?" needs the tyre, not the first question of the day."""
    asked = "When does the shop open?", "What does a new tyre cost?", "And a service?", "Why?"
    conversation = Conversation([Turn(question, (), "d", (1,)) for question in asked])
    assert conversation.earlier_questions() == asked[1:]


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(0, 200))
def test_history_never_exceeds_its_room_and_mostly_stays_put(lengths: list[int], room: int) -> None:
    """What is given is a run of whole, newest turns within the room; after making room half of it is free."""
    conversation = Conversation()
    for number, length in enumerate(lengths):
        conversation.add(turn(number, length))
        first = conversation.first
        ids = conversation.history_ids(room)
        assert len(ids) <= room
        assert ids == tuple(token for each in conversation.turns[conversation.first :] for token in each.ids)
        if conversation.first != first:
            assert len(ids) <= room // 2
