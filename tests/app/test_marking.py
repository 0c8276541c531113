"""What is shown of a passage that was found: a stretch of it, where most of the question's words stand, marked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.marking import AROUND_CHARACTERS, Piece, marked, whole, window
from app.terms import terms

WORDS = st.sampled_from(["ferry", "Ferries,", "the", "quay", "06:40", "渡轮", "几点开船", "x" * 300, "of a long way"])
QUESTIONS = st.sampled_from(["When does the ferry leave?", "渡轮几点开船", "06:40", "", "ferry quay"])


def text_of(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces)


@given(st.lists(WORDS, max_size=80), QUESTIONS)
def test_a_window_is_a_short_stretch_of_the_text_and_marks_what_was_asked(said: list[str], question: str) -> None:
    """And holds a word of the question wherever the text does; without cuts it is the text."""
    text, wanted = " ".join(said), set(terms(question))
    pieces = window(text, question)
    shown = text_of(pieces).removeprefix("… ").removesuffix(" …")
    assert shown in text
    assert len(shown) <= AROUND_CHARACTERS + 24
    assert all(set(terms(piece.text)) & wanted for piece in pieces if piece.marked)
    if set(terms(text)) & wanted:
        assert any(piece.marked for piece in pieces)
    if len(text) <= AROUND_CHARACTERS:
        assert shown == text
    assert text_of(whole(text, question)) == text


@pytest.mark.parametrize("filler", ["Nothing of note was written down that day. ", "那天没有什么可记的。"])
def test_a_window_lies_where_most_of_the_words_are(filler: str) -> None:
    """A lone word at the beginning does not hold it."""
    text = f"The ferry. {filler * 30} The ferry leaves the quay at six. {filler * 30}"
    shown = text_of(window(text, "When does the ferry leave the quay?"))
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert "The ferry leaves the quay at six." in shown


def test_a_window_ends_with_a_whole_word() -> None:
    """Half a word reads like another one."""
    text = "harbour " * 100
    shown = text_of(window(text, "quay"))
    assert set(shown.removesuffix(" …").split()) == {"harbour"}


@pytest.mark.parametrize("shown", [window, marked])
def test_at_a_glance_there_are_no_signs_of_markdown(shown: Callable[[str, str], tuple[Piece, ...]]) -> None:
    """Headings, bold type and the line under a table's head; a power, a dunder and a list's dash stay."""
    text = "## Berths\n**Fees** and 2**3\n| boat | fee |\n|:--|---:|\n| yawl | 12 |\n---\n- call `__init__` first"
    assert text_of(shown(text, "fees")) == "Berths Fees and 2**3 | boat | fee | | yawl | 12 | - call `__init__` first"
    assert text_of(whole(text, "fees")).startswith("## Berths **Fees**")
