"""The order of a batch, whatever comes in: everything once, answers before what follows them, each prefix together."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from app.batch.choice import Choice
from app.batch.plan import Group, in_order
from app.batch.question import BatchQuestion
from app.plan import Plan

NOTHING = Plan(None, (), True, 0)


def choice(row: int, prefix: int, follows: int | None = None) -> Choice:
    before = None if follows is None else f"q{follows}"
    question = BatchQuestion(row, f"q{row}", "?", follow_up_of=before)
    return Choice(question, "kb", NOTHING, f"p{prefix}", 1_000, ("kb", f"d{prefix // 2:03}", prefix % 2), before)


@st.composite
def chains(draw: st.DrawFn, across: bool) -> list[Choice]:
    """Up to 30 questions, each alone or behind an earlier one, on its prefix or (`across`) on any; then shuffled."""
    made: list[Choice] = []
    for row in range(draw(st.integers(1, 30))):
        follows = draw(st.none() | st.integers(0, row - 1)) if row else None
        prefix = draw(st.integers(0, 5))
        if follows is not None and not across:
            prefix = int(made[follows].prefix[1:])
        made.append(choice(row, prefix, follows))
    return draw(st.permutations(made))


def flat(groups: tuple[Group, ...]) -> list[Choice]:
    return [one for group in groups for one in group.choices]


@given(chains(across=True))
def test_everything_comes_once_and_behind_what_it_follows(choices: list[Choice]) -> None:
    """Also where chains go from one document to another and back."""
    rows = [one.question.row for one in flat(in_order(choices, {}))]
    assert sorted(rows) == sorted(one.question.row for one in choices)
    place = {f"q{row}": at for at, row in enumerate(rows)}
    assert all(place[one.waits_for] < place[one.question.id] for one in choices if one.waits_for is not None)


@given(chains(across=True))
def test_a_prefix_comes_again_only_where_another_one_had_to_come_between(choices: list[Choice]) -> None:
    """No group could have been joined with the one before it, and the later ones are marked."""
    groups = in_order(choices, {})
    assert all(before.prefix != after.prefix for before, after in pairwise(groups))
    seen: set[str] = set()
    for group in groups:
        assert group.is_again == (group.prefix in seen)
        seen.add(group.prefix)


@given(chains(across=False), st.integers(0, 99))
def test_without_chains_across_documents_each_prefix_comes_once_in_any_order_of_rows(
    choices: list[Choice], seed: int
) -> None:
    """The order of groups depends on what is asked, not on where it stands in the file."""
    groups = in_order(choices, {})
    assert len(groups) == len({one.prefix for one in choices})
    again = in_order(Random(seed).sample(choices, len(choices)), {})
    assert [group.prefix for group in again] == [group.prefix for group in groups]
    assert [one.question.id for one in flat(again)] == [one.question.id for one in flat(groups)]


def test_what_is_held_most_completely_comes_first_then_parts_of_a_document_together() -> None:
    """A quarter of one counts as a quarter: what is whole would lose more."""
    choices = [choice(row, prefix) for row, prefix in enumerate((3, 0, 5, 2, 1, 4))]
    order = [group.prefix for group in in_order(choices, {"p4": 992, "p5": 250})]
    assert order == ["p4", "p5", "p0", "p1", "p2", "p3"]


def test_the_longest_chain_begins_first() -> None:
    """Nothing is left to run beside its end otherwise."""
    choices = [choice(0, 0), choice(1, 0), choice(2, 0, 1), choice(3, 0, 2), choice(4, 0)]
    assert [one.question.row for one in flat(in_order(choices, {}))] == [1, 2, 0, 3, 4]
