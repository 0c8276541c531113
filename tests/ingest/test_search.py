"""Several wordings of a question are searched as one, within the same rights; zero is no evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.corpus import Corpus
from ingest.fusion import Found, add_up, by_language, take_turns, turns

scores = st.dictionaries(st.integers(0, 30), st.floats(0.01, 1.0), max_size=10)


def ranked(one: dict[int, float]) -> list[int]:
    return [id_ for id_, _ in sorted(one.items(), key=lambda item: (-item[1], item[0]))]


@given(st.lists(scores, min_size=1, max_size=4))
def test_languages_take_turns_and_nothing_is_lost_or_twice(found):
    """Of `n` lists each has its own best `k` among the first `n * k`, in their order."""
    order = list(range(len(found)))
    placed = [id_ for id_, _ in take_turns(found, order)]
    assert sorted(placed) == sorted({id_ for one in found for id_ in one})
    for number, one in enumerate(found):
        for k, id_ in enumerate(ranked(one), 1):
            assert placed.index(id_) < len(found) * k
        mine = [id_ for id_, by in take_turns(found, order) if by == number]
        assert mine == [id_ for id_ in ranked(one) if id_ in mine]


@given(scores)
def test_a_question_alone_is_ranked_by_its_scores(one):
    assert take_turns([one], turns(["en"], {})) == [(id_, 0) for id_ in ranked(one)]


@given(scores, scores, st.floats(0, 1), st.floats(0, 1))
def test_help_in_another_language_never_takes_more_than_every_second_place(own, other, here, there):
    """What a question finds in its own language stays: its best `k` are among the first `2 * k`."""
    placed = [id_ for id_, _ in take_turns([own, other], turns(["en", "zh"], {"en": here, "zh": there}))]
    for k, id_ in enumerate(ranked(own), 1):
        assert placed.index(id_) < 2 * k


def test_the_language_that_holds_most_of_what_is_asked_leads():
    """Two places of three for the question's own; as many as it where the other leads; no say where it is not known."""
    assert turns(["en", "zh"], {"en": 0.3, "zh": 0.2}) == [0, 0, 1]
    assert turns(["en", "zh"], {"en": 0.2, "zh": 0.2}) == [0, 0, 1]
    assert turns(["en", "zh"], {"en": 0.1, "zh": 0.2}) == [1, 0]
    assert turns(["en", "de", "zh"], {"en": 0.1, "zh": 0.2}) == [2, 0, 1]
    assert turns(["fr", "zh"], {"zh": 0.2}) == [0, 1]
    assert turns(["en"], {"en": 0.2}) == [0]


def test_a_language_in_which_meaning_is_sure_keeps_four_places_of_five():
    """Whatever the dictionary says of the others; each of them keeps one."""
    assert turns(["en", "zh"], {"en": 0.1, "zh": 0.9}, is_sure=True) == [0, 0, 0, 0, 1]
    assert turns(["en", "de", "zh"], {}, is_sure=True) == [0, 0, 0, 0, 1, 2]


def test_a_wording_is_sure_from_a_cosine_on_and_never_by_words():
    assert not Found("en", {1: 0.39}, {1: 1.0}, 0.33, 0.40).is_sure
    assert Found("en", {1: 0.39, 2: 0.40}, {}, 0.33, 0.40).is_sure
    assert not Found("en", {1: 1.0}, {}, None).is_sure
    assert not Found("en", {}, {}, 0.33, 0.40).is_sure


def wording(language: str, words: dict[int, float], floor: float | None = None) -> Found:
    return Found(language, {}, words, floor)


def test_wordings_of_one_language_add_up_and_the_question_counts_as_much_as_all_others():
    """(2 * 0.2 + 0.4 + 0.6) / 4: two wordings beside the question's own."""
    lists = by_language([wording("en", {1: 0.2}), wording("en", {1: 0.4}), wording("en", {1: 0.6, 2: 0.8})])
    assert lists == {"en": {1: pytest.approx(0.35), 2: pytest.approx(0.2)}}


def test_other_languages_wordings_are_told_apart_and_count_alike():
    found = [wording("en", {1: 0.2}), wording("zh", {1: 0.4, 3: 0.3}), wording("zh", {3: 0.5})]
    assert by_language(found) == {"en": {1: 0.2}, "zh": {1: pytest.approx(0.2), 3: pytest.approx(0.4)}}


def test_what_one_wording_finds_counts_for_the_others_though_they_alone_would_not_find_it():
    """Under the floor it is no evidence; beside another's evidence it is still a word that fits."""
    weak = Found("en", {1: 0.2}, {1: 0.1}, 0.33)
    assert weak.evidence == {}
    assert by_language([weak]) == {"en": {}}
    assert by_language([weak, wording("en", {1: 0.5})]) == {"en": {1: pytest.approx((0.15 + 0.5) / 2)}}


@given(st.dictionaries(st.integers(0, 30), st.just(0.0)), st.dictionaries(st.integers(0, 30), st.just(0.0)))
def test_what_nothing_speaks_for_is_no_evidence(cosines, words):
    """Zero by words and zero by meaning is never a hit, whether the embedder reads the question or not."""
    assert add_up(cosines, words, 0.3) == {}
    assert add_up(cosines, words, None) == {}


@pytest.fixture
def manuals(corpus: Corpus, write) -> dict[str, str]:
    """The same two facts in two bases, and in another language."""
    return {
        "pump": corpus.add(write("pump.txt", "The crimson pump stops at midnight.")).document_id,
        "boiler": corpus.add(write("boiler.txt", "A boiler of brass heats the hall.")).document_id,
        "zh": corpus.add(write("zh.txt", "深红色的水泵午夜停止。")).document_id,
        "other": corpus.add(write("other.txt", "Another crimson pump never stops."), kb="other").document_id,
    }


def found(corpus: Corpus, question: str, **more) -> list[str]:
    return [hit.doc_id for hit in corpus.search(question, **more)]


def test_another_wording_finds_what_the_question_does_not(corpus, manuals):
    """The question in the document's language is found by its words; alone it finds nothing."""
    assert found(corpus, "Quand la pompe rouge arrête ?") == []
    assert found(corpus, "Quand la pompe rouge arrête ?", also=["When does the crimson pump stop?"]) == [
        manuals["pump"]
    ]
    hit = corpus.search("Quand arrête ?", also=["crimson pump"])[0]
    assert hit.keyword_rank == 1
    assert hit.score == corpus.search("crimson pump")[0].score


def test_a_further_wording_keeps_to_the_base_and_the_documents_that_were_asked(corpus, manuals):
    """Rights come before ranking, for each wording alike."""
    also = ["crimson pump", "深红色的水泵"]
    assert set(found(corpus, "crimson", also=also)) == {manuals["pump"], manuals["zh"]}
    assert found(corpus, "crimson", also=also, doc_ids=[manuals["zh"]]) == [manuals["zh"]]
    assert found(corpus, "crimson", also=also, kb="other") == [manuals["other"]]
    assert found(corpus, "crimson", also=also, kb="other", doc_ids=[manuals["pump"]]) == []
    assert found(corpus, "crimson", also=also, doc_ids=[]) == []


def test_each_wording_counts_for_passages_that_are_among_no_wordings_best(corpus, write, monkeypatch):
    """A score says all that is known of a passage, however few are looked up for each wording.

    Each wording brings the passage that it finds best; each of both is measured with both.
    """
    monkeypatch.setattr("ingest.search.POOL", 1)
    corpus.add(write("pump.txt", "The crimson pump stops at midnight beside the boiler."))
    corpus.add(write("boiler.txt", "A boiler of brass heats the hall, and no pump."))
    narrow = {hit.text: hit.score for hit in corpus.search("crimson pump", k=1, also=["brass boiler"])}
    monkeypatch.setattr("ingest.search.POOL", 200)
    wide = {hit.text: hit.score for hit in corpus.search("crimson pump", k=1, also=["brass boiler"])}
    assert narrow == wide


def test_an_empty_wording_changes_nothing(corpus, manuals):
    assert corpus.search("crimson pump", also=["  "]) == corpus.search("crimson pump")
    assert corpus.search("zzz", also=["qqq"]) == ()
