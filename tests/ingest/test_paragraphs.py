"""Laws of citable units: they cover the text, keep to one page, have a bearable length, and never change."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.document import Document, Heading, Page
from ingest.paragraphs import MOST_WEIGHT, flow, split_paragraphs
from ingest.sentences import sentence_spans, weight

PIECES = st.sampled_from(
    [
        "The pump runs at night. ",
        "e.g. the valve of Dr. Smith opens, see Fig. 3. ",
        "机器在夜间停止运行。",
        "操作人员应当检查温度，并记录",
        "ポンプは夜に動きます。",
        "\n",
        "\n\n",
        "  \t",
        "x" * 300,
        "好" * 200,
        "# Heading\n",
        "1. ",
        "?!",
        "…",
        "a",
        "\u00a0",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=20), max_size=60).map(lambda parts: "".join(parts).replace("\f", " "))


def document(pages: list[str], headings: tuple[Heading, ...] = ()) -> Document:
    return Document("0" * 16, "title", "txt", tuple(Page(n, text) for n, text in enumerate(pages, 1)), headings)


def solid(text: str) -> str:
    return "".join(text.split())


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(st.integers(0, 400), max_size=4))
@settings(deadline=None)
def test_paragraphs_joined_give_back_every_character(pages, heading_starts):
    """Coverage, order and page borders hold for any text and any headings."""
    whole = "\f".join(pages)
    headings = tuple(Heading("h", 1, start) for start in sorted(heading_starts) if start < len(whole))
    made = document(pages, headings)
    paragraphs = split_paragraphs(made)
    assert solid("".join(made.text[p.start : p.end] for p in paragraphs)) == solid(made.text.replace("\f", ""))
    assert [p.number for p in paragraphs] == list(range(1, len(paragraphs) + 1))
    for paragraph in paragraphs:
        page_start = made.page_starts[paragraph.page - 1]
        assert page_start <= paragraph.start < paragraph.end <= page_start + len(pages[paragraph.page - 1])
        assert weight(made.text[paragraph.start : paragraph.end]) <= MOST_WEIGHT + 1
    for before, after in pairwise(paragraphs):
        assert before.end <= after.start


@given(TEXTS)
@settings(deadline=None)
def test_flow_changes_white_space_alone(text):
    """A quote taken from the flowing text is found again on its page once white space is folded."""
    assert solid(flow(text)) == solid(text)
    assert not re.search(r"\s\s|\n", flow(text))


def test_flow_joins_chinese_lines_without_a_blank_and_english_lines_with_one():
    assert flow("机器在夜间\n停止，\r\n检查  水温。\nThe pump\nruns.") == "机器在夜间停止，检查 水温。 The pump runs."


def test_flow_keeps_a_hyphen_and_the_line_end_after_it_as_a_blank():
    """What PDFium joined is joined ("ex-ample"); a hyphen that the author wrote before a line end stays apart."""
    assert flow("an ex-ample of a well-\nknown pump") == "an ex-ample of a well- known pump"


def test_prose_is_cut_into_units_of_forty_to_ninety_words():
    sentence = "The operator reads the temperature of the water and writes it into the table. "
    paragraphs = split_paragraphs(document([sentence * 40]))
    weights = [weight(document([sentence * 40]).text[p.start : p.end]) for p in paragraphs]
    assert all(40 <= weight <= 90 for weight in weights[:-1])
    assert len(paragraphs) == 8


def test_chinese_prose_is_cut_into_units_of_eighty_to_160_characters():
    text = "操作人员应当检查冷却水的温度，并把读数记录在表格中。" * 30
    paragraphs = split_paragraphs(document([text]))
    assert all(70 <= p.end - p.start <= 165 for p in paragraphs[:-1])
    assert all(text[p.end - 1] == "。" for p in paragraphs)


def test_a_heading_opens_a_paragraph_and_takes_the_next_heading_with_it():
    text = "Some words before.\n\n# One\n\n## Two\n\nWords after."
    headings = (Heading("One", 1, text.index("# One")), Heading("Two", 2, text.index("## Two")))
    made = document([text], headings)
    assert [text[p.start : p.end] for p in split_paragraphs(made)] == [
        "Some words before.",
        "# One\n\n## Two\n\nWords after.",
    ]


def test_sentences_do_not_end_at_abbreviations_or_inside_numbers():
    text = "Dr. Smith (see Fig. 3) paid 3.50 for it, e.g. Twice. J. R. Jones did not! 好。很好！"
    assert [text[start:end] for start, end in sentence_spans(text)] == [
        "Dr. Smith (see Fig. 3) paid 3.50 for it, e.g. Twice.",
        "J. R. Jones did not!",
        "好。",
        "很好！",
    ]
