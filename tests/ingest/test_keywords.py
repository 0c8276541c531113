"""What counts as a word, in any script."""

from __future__ import annotations

import pytest

from ingest.keywords import folded, keywords, question_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Different ﬁelds", ["different", "fields"]),
        ("Ａｂｃ １２", ["abc", "12", "abc12"]),
        ("Café Straße", ["cafe", "strasse"]),
        ("читай", ["читай"]),
        ("非机动车", ["非机", "机动", "动车"]),
        ("在Debian中", ["在", "debian", "中"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("안녕하세요", ["안녕", "녕하", "하세", "세요"]),
        ("includ-ing", ["includ", "ing", "including"]),
        ("snake_case", ["snake", "case", "snakecase"]),
        ("", []),
        ("?!…", []),
    ],
)
def test_words_of_a_text(text, words):
    assert keywords(text) == words


@pytest.mark.parametrize("text", ["a" * 1_000_000, "a_" * 300_000, "_" * 1_000_000, "1." * 300_000 + " "])
def test_a_word_without_end_takes_time_in_proportion(text):
    """Base64 and genomes are words of a million letters; tried from each letter this would not come back in a day."""
    assert max(map(len, keywords(text)), default=0) <= len(text)


@pytest.mark.parametrize("written", ["GB/T 19001", "GB/T19001", "gb/t 19001", "ＧＢ／Ｔ　19001", "按照GB/T 19001执行"])
def test_a_standards_number_is_one_word_however_it_is_written(written):
    """Case C23: the number is found by its rarest form."""
    assert "gbt19001" in keywords(written)


def test_folding_keeps_what_distinguishes_words_outside_latin():
    assert folded("й が é") == "й が e"
    assert folded("so\u00adft\u200b") == "soft"


def test_a_question_is_its_telling_words():
    assert question_words("What is the maximum speed of the pump?") == ["maximum", "speed", "pump"]
    assert "什么" not in question_words("最高时速是什么？")
    assert question_words("what is it") == ["what", "is", "it"]
