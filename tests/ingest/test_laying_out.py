"""How blocks become text: no word is lost, headings know their place, tables keep their columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from office_maker import xlsx
from test_reading_office import document_of

from ingest.blocks import NewPage, Table, Title, Words, lay_out, table_text
from ingest.title import title_of


@pytest.mark.parametrize("title", ["\x0b \u202e", "\ud800", "  ", "\u200b"])
def test_a_title_that_shows_nothing_gives_way_to_the_files_name(title):
    assert title_of("roof.docx", title, None) == "roof"
    assert title_of("roof.docx", title, "A \n heading\x07") == "A heading"


PIECES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
BLOCKS = st.one_of(
    st.builds(Title, PIECES, st.integers(1, 6)),
    st.builds(Words, PIECES, st.booleans()),
    st.builds(Table, st.lists(st.lists(PIECES, max_size=3).map(tuple), max_size=4).map(tuple), st.booleans()),
    st.builds(NewPage, st.none() | PIECES),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(BLOCKS, max_size=8))
def test_laying_out_loses_no_word_and_knows_where_each_heading_stands(blocks):
    """Whatever the blocks: their words are in the text in order, and a heading's place is its words."""
    laid = lay_out(blocks)
    text = "\f".join(page.text for page in laid.pages)
    for heading in laid.headings:
        assert text[heading.start :].startswith(heading.title)
    at = 0
    for block in blocks:
        rows = block.rows if isinstance(block, Table) else () if isinstance(block, NewPage) else ((block.text,),)
        for word in (word for row in rows for cell in row for word in cell.split()):
            found = text.find(word.replace("|", "\\|") if isinstance(block, Table) else word, at)
            assert found >= 0, word
            at = found
    pages = sum(isinstance(block, NewPage) for block in blocks)
    assert len(laid.pages) == pages + (not (blocks and isinstance(blocks[0], NewPage)))


def test_a_wide_table_keeps_every_column():
    """As many as a sheet can have, and a short row beside it does not grow to its length."""
    wide = [f"c{number}" for number in range(16_384)]
    text = document_of(xlsx({"S": [wide, ["x"]]}), "s.xlsx").text
    assert text.split("\n")[2] == f"| {' | '.join(wide)} |"
    long = table_text(Table((("a",),) * 200_000 + (tuple(wide),)))
    assert long.startswith("| a |\n| a |\n")
    assert long.endswith("| c16383 |")
