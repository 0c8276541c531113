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


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 200)), min_size=1, max_size=20), st.data())
def test_a_conversation_that_is_cut_back_goes_on_as_if_the_later_turns_had_never_been(
    asked: list[tuple[int, int]], data: st.DataObject
) -> None:
    """The next question gets the very ids that the one in its place began with, and so finds them cached."""
    conversation, before = Conversation(), list[tuple[tuple[Turn, ...], tuple[int, ...]]]()
    for number, (length, room) in enumerate(asked):
        turns = tuple(conversation.turns)
        before.append((turns, conversation.history_ids(room)))
        conversation.add(turn(number, length))
        conversation.show_last(f"answer {number}")
    at = data.draw(st.integers(0, len(asked) - 1))
    gone = {f"answer {number}" for number in range(at, len(asked))} | {"a message without a turn"}
    conversation.cut_back(gone)
    turns, ids = before[at]
    assert tuple(conversation.turns) == turns
    assert conversation.history_ids(asked[at][1]) == ids


def test_what_no_turn_is_shown_by_cuts_nothing() -> None:
    conversation = Conversation()
    conversation.add(turn(1))
    conversation.show_last("a")
    conversation.cut_back({"b", ""})
    assert len(conversation.turns) == 1


def test_a_try_that_is_not_taken_over_leaves_no_trace() -> None:
    """And one that is taken over leaves its turn."""
    conversation = Conversation()
    conversation.add(turn(1))
    tried = conversation.tried()
    tried.add(turn(2))
    assert [each.question for each in conversation.turns] == ["question 1"]
    conversation.take_over(tried)
    assert [each.question for each in conversation.turns] == ["question 1", "question 2"]
