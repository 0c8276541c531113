"""A text's language is told by its script and its commonest words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.corpus import Corpus
from ingest.language import language_of, languages_of

ENGLISH = "The ferry leaves the pier at noon, and it comes back in the evening. "
CHINESE = "渡轮中午离开码头，晚上返回。船票十二元。"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("When did the mill burn down?", "en"),
        ("Wann ist die Mühle abgebrannt?", "de"),
        ("Quand le moulin a-t-il brûlé ?", "fr"),
        ("¿Cuándo se quemó el molino?", "es"),
        ("Когда сгорела мельница?", "ru"),
        ("磨坊是什么时候烧毁的？", "zh"),
        ("水車小屋はいつ燃えましたか。", "ja"),
        ("방앗간은 언제 불탔습니까?", "ko"),
        ("在 bash 中如何设置变量？", "zh"),
        ("XR-550", "en"),
        ("12.5 %", None),
        ("", None),
    ],
)
def test_a_question_is_told_by_script_and_common_words(text, language):
    """A command's name makes no Chinese question English; figures are in no language."""
    assert language_of(text) == language


def test_a_quotation_makes_no_text_bilingual_and_a_half_does():
    assert languages_of(ENGLISH * 200 + CHINESE) == ("en",)
    assert languages_of(ENGLISH * 100 + CHINESE * 600) == ("zh", "en")
    assert languages_of(CHINESE) == ("zh",)
    assert languages_of("") == ()


@given(st.text(max_size=3_000))
def test_any_text_has_some_languages_or_none(text):
    """What is named has letters in the text, whatever it is."""
    found = languages_of(text)
    assert len(set(found)) == len(found)
    assert all(language_of(text) is not None for _ in found)


def test_a_base_has_the_languages_of_its_documents_most_first(corpus: Corpus, write):
    """By base, and by the documents that are asked about."""
    ids = [corpus.add(write(f"{n}.txt", text)).document_id for n, text in enumerate((CHINESE, CHINESE * 2, ENGLISH))]
    corpus.add(write("other.txt", "Где остановка?"), kb="other")
    assert corpus.languages() == ("zh", "en")
    assert corpus.languages(doc_ids=[ids[2]]) == ("en",)
    assert corpus.languages("other") == ("ru",)
    assert corpus.languages(None) == ("zh", "en", "ru")
    assert corpus.languages("empty") == ()
