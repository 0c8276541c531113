"""Laws of passages: they cover the text, keep to one page, and none is longer than the embedder reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_paragraphs import TEXTS, document, solid

from ingest.document import Document, Page
from ingest.embed_hashing import HashingEmbedder
from ingest.passages import locate, split_passages

EMBEDDER = HashingEmbedder(max_tokens=40)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from(["txt", "md", "pdf"]))
@settings(deadline=None, max_examples=60)
def test_passages_joined_give_back_every_character_within_the_limit(pages, kind):
    made = Document("0" * 16, "title", kind, tuple(Page(n, text) for n, text in enumerate(pages, 1)))
    passages = split_passages(made, EMBEDDER)
    assert solid("".join(made.text[p.start : p.end] for p in passages)) == solid(made.text.replace("\f", ""))
    assert [p.number for p in passages] == list(range(1, len(passages) + 1))
    for passage in passages:
        page_start = made.page_starts[passage.page - 1]
        assert page_start <= passage.start < passage.end <= page_start + len(pages[passage.page - 1])
        assert EMBEDDER.count_tokens(made.text[passage.start : passage.end]) <= EMBEDDER.max_tokens


def test_words_before_the_first_markdown_heading_are_kept():
    """Case C15."""
    text = "Lead words.\n\n# One\nFirst.\n\n```\n# no heading\n```\n\n# Two\nSecond."
    made = Document("0" * 16, "title", "md", (Page(1, text),))
    assert [text[p.start : p.end] for p in split_passages(made, EMBEDDER)] == [
        "Lead words.",
        "# One\nFirst.\n\n```\n# no heading\n```",
        "# Two\nSecond.",
    ]


def test_a_smaller_size_may_be_asked_for_and_a_larger_one_is_the_embedders():
    made = document(["The pump runs at night and stops by day. " * 50])
    sizes = {
        wanted: max(EMBEDDER.count_tokens(made.text[p.start : p.end]) for p in split_passages(made, EMBEDDER, wanted))
        for wanted in (20, 400)
    }
    assert sizes[20] <= 20
    assert 20 < sizes[400] <= 40


@pytest.mark.parametrize("pieces", [["a b", "c"], ["ab", "", "c"], ["a  b\n", " c "]])
def test_pieces_are_found_again_whatever_became_of_their_blanks(pieces):
    text = ".. a\n b \t c"
    spans = list(locate(pieces, text, 3))
    assert [solid(text[start:end]) for start, end in spans] == [solid(piece) for piece in pieces if piece]
