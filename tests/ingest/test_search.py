"""Several wordings of a question are searched as one, within the same rights; zero is no evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.corpus import Corpus
from ingest.search import add_up, alternate

scores = st.dictionaries(st.integers(0, 30), st.floats(0.01, 1.0), max_size=10)


def ranked(one: dict[int, float]) -> list[int]:
    return [id_ for id_, _ in sorted(one.items(), key=lambda item: (-item[1], item[0]))]


@given(st.lists(scores, min_size=1, max_size=4))
def test_the_wordings_take_turns_and_nothing_is_lost_or_twice(found):
    """Of `n` wordings a question's own best `k` are among the first `n * k`, in their order."""
    placed = [id_ for id_, _ in alternate(found)]
    assert sorted(placed) == sorted({id_ for one in found for id_ in one})
    for number, one in enumerate(found):
        for k, id_ in enumerate(ranked(one), 1):
            assert placed.index(id_) < len(found) * k
        mine = [id_ for id_, by in alternate(found) if by == number]
        assert mine == [id_ for id_ in ranked(one) if id_ in mine]


@given(scores)
def test_a_question_alone_is_ranked_by_its_scores(one):
    assert alternate([one]) == [(id_, 0) for id_ in ranked(one)]


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


def test_an_empty_wording_changes_nothing(corpus, manuals):
    assert corpus.search("crimson pump", also=["  "]) == corpus.search("crimson pump")
    assert corpus.search("zzz", also=["qqq"]) == ()
