"""S4: cache use below 85 %, hit rate above 70 %, first token below half a second, throughput: seen, by true names."""

from __future__ import annotations

import pytest
from views import view

from engine.targets import missed
from engine.view import FirstTokens


def sentences(**changes: object) -> list[str]:
    """The first words of each target that is missed."""
    return [sentence.split(";")[0] for sentence in missed(view(**changes))]


def test_all_is_well_within_the_targets() -> None:
    """Exactly at a limit nothing is missed."""
    at_the_limits = view(
        pinned_tokens=10_600, hot_tokens=3_000, queries_tokens=1_000, hits_tokens=700,
        first_token=FirstTokens(20, 500.0, 60_000.0),
    )  # fmt: skip
    assert at_the_limits.held_share == 0.85
    assert missed(at_the_limits) == ()


def test_more_than_85_percent_pinned_or_in_use_is_said() -> None:
    """Use counts what may not be evicted: a pool full of cold documents is a cache that works."""
    assert sentences(pinned_tokens=12_000, hot_tokens=2_000) == [
        "88% of the cache is pinned or in use (target: at most 85%)"
    ]
    assert sentences(pinned_tokens=0, hot_tokens=0, resident_tokens=16_000) == []


@pytest.mark.parametrize(("questions", "said"), [(19, False), (20, True)])
def test_less_than_70_percent_reused_is_said_after_twenty_questions(questions: int, said: bool) -> None:
    """The first questions on each document find nothing, and are no failure."""
    found = sentences(hits_tokens=690, queries_tokens=1_000, first_token=FirstTokens(questions, 40.0, None))
    assert found == (["69% of the prompt tokens were reused (target: at least 70%)"] if said else [])


def test_a_warm_first_token_beyond_half_a_second_is_said() -> None:
    """A cold one may take what reading takes."""
    assert sentences(first_token=FirstTokens(5, 812.0, 9_000.0)) == [
        "The first token of a warm question takes 812 ms at the median (target: at most 500 ms)"
    ]
    assert sentences(first_token=FirstTokens(5, None, 9_000.0)) == []


def test_each_sentence_says_what_to_do() -> None:
    """All three at once, each with its advice."""
    all_missed = view(
        pinned_tokens=16_000, hits_tokens=1, queries_tokens=1_000, first_token=FirstTokens(99, 900.0, None)
    )
    assert [sentence.split("; ")[1].split(",")[0] for sentence in missed(all_missed)] == [
        "unpin documents",
        "ask one document several questions in a row",
        "ask fewer questions at once",
    ]
