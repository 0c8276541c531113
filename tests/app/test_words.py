"""Words about answers: what the engine reported, in English and Chinese, and nothing that it did not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.answer import Reading
from app.words import (
    UNSUPPORTED_CHARS,
    beginning,
    not_in_reading,
    nothing_relevant,
    page_words,
    receipt_words,
    seconds,
    unsupported,
)
from engine.base import Receipt

WARM = Receipt(2031, 1984, 20, 210.0, 1900.0, "p", None, 5512.0)
READING = Reading("d", "Handbook", "Fees", True, 1, 14, 14, "p")


def test_warm_receipt_says_what_was_reused_and_what_cold_took() -> None:
    """The sentence of the README."""
    assert receipt_words(WARM) == "1,984 of 2,031 prompt tokens reused, first word after 0.2 s; cold it took 5.5 s"


def test_cold_receipt_says_why_instead_of_a_comparison() -> None:
    """Every reason has its words."""
    cold = replace(WARM, cached_tokens=0, cold_because="first_use", first_token_ms=5512.0)
    assert (
        receipt_words(cold)
        == "0 of 2,031 prompt tokens reused, first word after 5.5 s (cold: first use of these pages)"
    )
    for reason in ("evicted", "restarted", "changed", "unknown"):
        assert "(cold: " in receipt_words(replace(cold, cold_because=reason))


def test_unreported_reuse_is_never_zero() -> None:
    """C4: an engine that is silent about its cache."""
    silent = replace(WARM, cached_tokens=None, cold_because=None, cold_first_token_ms=None)
    assert receipt_words(silent) == "2,031 prompt tokens, reuse not reported, first word after 0.2 s"
    assert "未报告" in receipt_words(silent, "zh")


def test_answer_without_a_word_has_no_first_word() -> None:
    """None, not 0.0 s."""
    assert "no word came" in receipt_words(replace(WARM, first_token_ms=None))


def test_chinese_receipt() -> None:
    """The same figures."""
    assert receipt_words(WARM, "zh") == "2,031 个提示词元中复用了 1,984 个，0.2 s 后出现第一个字；冷读时用了 5.5 s"


def test_a_search_that_one_noticed_is_told_beside_the_first_word() -> None:
    """The receipt's times begin behind it; a quick one is nobody's concern."""
    assert "first word after 0.2 s, behind a search of 4.7 s" in receipt_words(WARM, "en", 4_700.0)
    assert "在此之前检索用了 4.7 s" in receipt_words(WARM, "zh", 4_700.0)
    assert receipt_words(WARM, "en", 300.0) == receipt_words(WARM)


def test_abstention_tells_whole_from_part() -> None:
    """ "Not in this document" is only said where all of it was read."""
    assert not_in_reading(READING, 1, "en") == "Not in this document (all 14 pages were read)."
    nearest = "Not in “Handbook”, the nearest of 3 documents (all 14 pages were read)."
    assert not_in_reading(READING, 3, "en") == nearest
    part = replace(READING, whole=False, first_page=3, last_page=5)
    assert not_in_reading(part, 9, "en") == (
        "Not in the passages searched (pages 3 to 5 of 14 of “Handbook” were read): read the whole document?"
    )
    assert not_in_reading(READING, 1, "zh") == "此文档中没有（已读全部 14 页）。"
    assert "第 3 至 5 页" in not_in_reading(part, 1, "zh")
    assert not_in_reading(part, 9, "en", asks=False).endswith("pages 3 to 5 of 14 of “Handbook” were read).")
    one = replace(READING, whole=False, first_page=1, last_page=1, num_pages=1)
    assert not_in_reading(one, 1, "en") == (
        "Not in the passages searched (a part of “Handbook” was read): read the whole document?"
    )
    assert not_in_reading(one, 1, "zh", asks=False) == "在检索到的段落中没有找到（读了《Handbook》的一部分）。"
    assert nothing_relevant(1, "en") == "Not in the passages searched: nothing in 1 document matches the question."


@pytest.mark.parametrize(
    ("page", "label", "words"),
    [(20, "10", "p. 10, sheet 20 of 240"), (7, None, "p. 7"), (7, "7", "p. 7"), (2, "ii", "p. ii, sheet 2 of 240")],
)
def test_printed_label_is_shown_where_it_differs(page: int, label: str | None, words: str) -> None:
    """C8: people look for what is printed, viewers open sheets."""
    assert page_words(page, label, 240) == words


def test_seconds_have_the_digits_a_person_wants() -> None:
    """Neither 0.0 s nor 5.512 s."""
    assert [seconds(ms) for ms in (20, 94, 200, 5512, 12_400)] == ["0.02 s", "0.09 s", "0.2 s", "5.5 s", "12 s"]


def test_of_a_long_unsupported_answer_only_the_beginning_is_shown() -> None:
    """A model that repeats itself fills the whole answer; a short one is shown as it is."""
    assert unsupported(beginning("It is red."), "Not told.", "en") == (
        "Not told. Without support in the text: “It is red.”"
    )
    assert unsupported("它是红的。", "没有。", "zh") == "没有。文中没有依据的回答：“它是红的。”"
    assert beginning("red " * 100) == ("red " * 50).rstrip() + "…"
    assert len(beginning("x" * 1000)) == UNSUPPORTED_CHARS + 1
