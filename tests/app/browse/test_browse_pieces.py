"""The small laws under the documents' pages: what is counted, what is marked, which colours they have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.browse import words
from app.browse.coverage import Coverage, coverage
from app.browse.theme import sheet
from app.browse.view_document import split_at
from app.marking import marked
from app.terms import terms
from ingest.document import Document, Page

ROOT = Path(__file__).parent.parent.parent.parent
ORIGINS = st.sampled_from(["text", "doubtful", "picture", "ocr", "unread"])
PAGES = st.lists(st.tuples(st.text("ab 渡口\n.", max_size=30), ORIGINS), min_size=1, max_size=6).map(
    lambda rows: tuple(Page(number, text, None, origin) for number, (text, origin) in enumerate(rows, 1))  # type: ignore[arg-type]
)


@given(PAGES)
def test_every_page_is_covered_in_one_way(pages: tuple[Page, ...]) -> None:
    """Together they are all pages; one without a letter is empty, wherever its text should have come from."""
    counted = coverage(pages)
    assert counted.pages == len(pages)
    assert counted.empty == sum(not page.text.strip() for page in pages)
    assert counted.ocr == sum(page.origin == "ocr" and bool(page.text.strip()) for page in pages)


def test_words_are_counted_as_people_count_them() -> None:
    """A Chinese character is one, a hyphen joins, digits count."""
    pages = (Page(1, "The well-known ferry's fare: 12 marks.\n"), Page(2, "渡口6点开"), Page(3, ""))
    assert coverage(pages) == Coverage(words=6 + 5, text=2, ocr=0, empty=1, doubtful=0)


@given(PAGES, st.integers(0, 80), st.integers(0, 80))
def test_a_page_is_shown_whole_with_its_span_marked(pages: tuple[Page, ...], start: int, end: int) -> None:
    """The three pieces are the page; the marked one is what the span holds of it in the whole text."""
    text = Document("x", "x", "txt", pages).text
    at = 0
    for page in pages:
        before, middle, after = split_at(pages, page.number, start, end)
        assert before + middle + after == page.text
        assert middle == text[max(at, start) : min(at + len(page.text), end)]
        at += len(page.text) + 1


@given(
    st.lists(
        st.sampled_from(["ferry", "Ferries,", "the", "quay", "06:40", "渡轮", "几点开船", "x" * 300]), max_size=40
    ),
    st.sampled_from(["When does the ferry leave?", "渡轮几点开船", "06:40", ""]),
)
def test_what_is_marked_was_asked_and_nothing_is_said_anew(said: list[str], question: str) -> None:
    """The pieces are a stretch of the text; each marked one shares a word with the question."""
    text, wanted = " ".join(said), set(terms(question))
    pieces = marked(text, question)
    shown = "".join(piece.text for piece in pieces).removeprefix("… ").removesuffix(" …")
    assert shown in text
    assert all(set(terms(piece.text)) & wanted for piece in pieces if piece.marked)
    if set(terms(text)) & wanted:
        assert any(piece.marked for piece in pieces)


def test_the_pages_have_the_chat_pages_colours() -> None:
    """Each variable of each theme, from the one file."""
    variables = json.loads((ROOT / "public" / "theme.json").read_text())["variables"]
    light, dark = sheet().split("@media", 1)
    for theme, text in (("light", light), ("dark", dark)):
        for name, value in variables[theme].items():
            assert f"{name}:{value};" in text


@pytest.mark.parametrize("column", [0, 1], ids=["en", "zh"])
def test_every_sentence_is_there_in_both_languages(column: int) -> None:
    """With the same gaps to fill; what the templates ask for by name is known."""
    for key, both in words._WORDS.items():
        assert both[column].strip(), key
        assert set(re.findall(r"\{(\w+)\}", both[0])) == set(re.findall(r"\{(\w+)\}", both[1])), key
    asked = [re.findall(r'(?<![\w.])t\("(\w+)"[,)]', path.read_text()) for path in templates()]
    assert sum(map(len, asked)) > 50
    assert {key for each in asked for key in each} <= words._WORDS.keys()


def templates() -> list[Path]:
    return sorted((ROOT / "app" / "browse" / "templates").glob("*.html"))
