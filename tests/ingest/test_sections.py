"""Laws of sections: whole paragraphs in order, within the budget, cut where a reader would cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from test_paragraphs import TEXTS, document

from ingest.document import Document, Heading, Page
from ingest.paragraphs import split_paragraphs
from ingest.sections import heading_path, paragraph_tokens, split_sections

SENTENCE = "The operator reads the temperature of the water and writes it into the table. "


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(30, 2000))
@settings(deadline=None, max_examples=60)
def test_sections_are_a_partition_of_the_paragraphs_within_the_budget(pages, budget):
    made = document(pages)
    paragraphs = split_paragraphs(made)
    costs = paragraph_tokens(made, paragraphs)
    sections = split_sections(made, paragraphs, budget)
    covered = [n for s in sections for n in range(s.first_paragraph, s.last_paragraph + 1)]
    assert covered == [p.number for p in paragraphs]
    for section in sections:
        run = paragraphs[section.first_paragraph - 1 : section.last_paragraph]
        assert (section.start, section.end) == (run[0].start, run[-1].end)
        assert (section.first_page, section.last_page) == (run[0].page, run[-1].page)
        assert section.num_tokens == sum(costs[section.first_paragraph - 1 : section.last_paragraph])
        assert section.num_tokens <= budget or len(run) == 1


def test_a_document_within_the_budget_is_one_section_with_its_title():
    made = Document("0" * 16, "Pump", "md", (Page(1, SENTENCE * 9),), (Heading("A", 1, 0),))
    (section,) = split_sections(made, split_paragraphs(made), 2000)
    assert (section.number, section.title) == (1, "Pump")


def test_sections_are_even_rather_than_full_with_a_crumb_at_the_end():
    made = document([SENTENCE * 80])
    paragraphs = split_paragraphs(made)
    budget = sum(paragraph_tokens(made, paragraphs)) // 2 - 10
    sizes = [section.num_tokens for section in split_sections(made, paragraphs, budget)]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 100


def test_sections_are_cut_at_headings_first_then_at_pages():
    text = SENTENCE * 12 + "\n\n# Two\n\n" + SENTENCE * 10
    at_heading = document([text], (Heading("One", 1, 0), Heading("Two", 1, text.index("# Two"))))
    sections = split_sections(at_heading, split_paragraphs(at_heading), 250)
    assert [section.title for section in sections] == ["One", "Two"]
    assert at_heading.text[sections[1].start :].startswith("# Two")
    at_page = document([SENTENCE * 12, SENTENCE * 10])
    assert [s.first_page for s in split_sections(at_page, split_paragraphs(at_page), 250)] == [1, 2]


def test_a_sections_title_is_the_path_of_its_headings():
    headings = (Heading("A", 1, 0), Heading("B", 2, 10), Heading("C", 3, 20), Heading("D", 2, 30))
    assert [heading.title for heading in heading_path(headings, 25)] == ["A", "B", "C"]
    assert [heading.title for heading in heading_path(headings, 30)] == ["A", "D"]
