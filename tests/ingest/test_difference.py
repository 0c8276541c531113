"""A text that replaces another one says from where on it differs, and what need not be read again."""

from __future__ import annotations

from pdf_maker import pdf

from ingest.corpus import Corpus

PAGES = [
    f"Page {n} tells of the pump number zq{n}. " + f"It stops at {n} at night and starts at dawn. " * 8
    for n in range(1, 13)
]


def replaced(corpus: Corpus, write, pages: list[str]):
    corpus.add(write("manual.pdf", pdf(PAGES)))
    added = corpus.add(write("manual.pdf", pdf(pages)))
    assert added.status == "replaced"
    assert added.difference is not None
    return added


def test_a_change_on_a_page_keeps_the_sections_before_it(corpus, write):
    """What stays read is whole sections and the beginning of the one with the change, never what comes after."""
    added = replaced(corpus, write, [*PAGES[:8], "Another text altogether.", *PAGES[9:]])
    before = [section for section in corpus.sections(added.document_id) if section.last_page < 9]
    assert added.difference.from_page == 9
    assert 0 < added.difference.kept_sections <= len(before)
    kept = sum(section.num_tokens for section in before[: added.difference.kept_sections])
    assert kept <= added.difference.kept_tokens < added.tokens
    assert added.warnings[0].startswith("It differs from page 9 on: of ")


def test_a_change_on_the_first_page_keeps_nothing(corpus, write):
    added = replaced(corpus, write, ["All is new here.", *PAGES[1:]])
    assert (added.difference.from_page, added.difference.kept_tokens, added.difference.kept_sections) == (1, 0, 0)


def test_pages_left_out_at_the_end_are_a_change_behind_the_last_page(corpus, write):
    added = replaced(corpus, write, PAGES[:6])
    assert added.difference.from_page == 7
    assert added.difference.all_tokens == added.tokens
    assert 0 < added.difference.kept_tokens <= added.tokens


def test_a_file_saved_anew_with_the_same_words_keeps_everything(corpus, write):
    """Other bytes, same text."""
    text = "# Manual\n\nThe pump stops at night.\n"
    corpus.add(write("manual.md", text))
    added = corpus.add(write("manual.md", b"\xef\xbb\xbf" + text.encode()))
    assert added.status == "replaced"
    assert added.difference.from_page is None
    assert added.difference.kept_tokens == added.tokens > 0
    assert added.difference.kept_sections == 1
