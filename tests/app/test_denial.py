"""Denials: the same words with another "not" are another fact."""

from __future__ import annotations

import pytest

from app.denial import denies, keeps_denials
from app.forms import words
from app.terms import rarity

HALL = "Dogs are not allowed in the hall, but they are allowed in the garden. The hall is heated."


@pytest.mark.parametrize(
    "clause", ["It isn't free", "Nobody may enter", "never on Sundays", "不得携带", "没有无线网络"]
)
def test_denials_are_seen(clause: str) -> None:
    assert denies(clause)


@pytest.mark.parametrize(
    "clause",
    [
        "not only maps",
        "no more than five",
        "No. 5",
        "It doesn't open before nine",
        "不得超过五本",
        "不仅免费",
        "非机动车",
        "未来三年",
    ],
)
def test_what_only_looks_like_a_denial_is_none(clause: str) -> None:
    assert not denies(clause)


@pytest.mark.parametrize(
    ("sentence", "text", "keeps"),
    [
        ("Dogs are allowed in the hall.", HALL, False),
        ("Dogs are not allowed in the hall.", HALL, True),
        ("Dogs are allowed in the garden.", HALL, True),
        ("Up to five books can be borrowed.", "You cannot borrow more than five books.", True),
        ("Smoking is not allowed here.", "Smoking here is forbidden.", True),
        ("The hall is not heated.", "The hall is heated.", False),
        ("The hall is heated.", HALL, True),
        ("游客可以携带宠物。", "游客不可以携带宠物。", False),
        ("游客不可以携带宠物。", "游客不可以携带宠物。", True),
    ],
)
def test_what_is_said_is_said_there_and_what_is_denied_denied(sentence: str, text: str, keeps: bool) -> None:
    """Clause by clause: a denial beside it costs nothing, one of the same words turns the fact round."""
    told = set(words(sentence))
    assert keeps_denials(sentence, told, told, text, words, rarity([words(text)])) is keeps


def test_a_bare_no_needs_a_denial_of_what_was_asked() -> None:
    """It has no word of its own."""
    about, weights = words("Are dogs allowed in the hall?"), rarity([words(HALL)])
    assert keeps_denials("No.", set(), about, HALL, words, weights)
    assert not keeps_denials("No.", set(), about, "Dogs are allowed in the hall.", words, weights)
    assert not keeps_denials("Yes.", set(), about, HALL, words, weights)
