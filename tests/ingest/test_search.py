"""Several wordings of a question are searched as one, within the same rights; zero is no evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.corpus import Corpus, Query
from ingest.search import add_up, fuse

scores = st.dictionaries(st.integers(0, 30), st.floats(0.01, 1.0), max_size=10)


@given(st.lists(st.tuples(scores, st.floats(0.1, 1.0)), min_size=1, max_size=4))
def test_fused_passages_are_all_there_once_best_first(found):
    """A passage's score is its best, over all wordings, times that wording's weight."""
    fused = fuse([one for one, _ in found], [weight for _, weight in found])
    assert {id_ for id_, _ in fused} == {id_ for one, _ in found for id_ in one}
    assert [score for _, (score, _) in fused] == sorted((score for _, (score, _) in fused), reverse=True)
    for id_, (score, number) in fused:
        assert score == max(one[id_] * weight for one, weight in found if id_ in one)
        assert score == found[number][0][id_] * found[number][1]


@given(scores)
def test_a_question_alone_is_searched_as_it_is(one):
    assert [(id_, score) for id_, (score, _) in fuse([one], [1.0])] == sorted(
        one.items(), key=lambda item: (-item[1], item[0])
    )


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
    assert found(corpus, "Quand la pompe rouge arrête ?", also=[Query("When does the crimson pump stop?", 0.8)]) == [
        manuals["pump"]
    ]
    hit = corpus.search("Quand arrête ?", also=[Query("crimson pump", 0.8)])[0]
    assert hit.keyword_rank == 1
    assert hit.score == pytest.approx(0.8 * corpus.search("crimson pump")[0].score)


def test_a_further_wording_keeps_to_the_base_and_the_documents_that_were_asked(corpus, manuals):
    """Rights come before ranking, for each wording alike."""
    also = [Query("crimson pump", 1.0), Query("深红色的水泵", 1.0)]
    assert set(found(corpus, "crimson", also=also)) == {manuals["pump"], manuals["zh"]}
    assert found(corpus, "crimson", also=also, doc_ids=[manuals["zh"]]) == [manuals["zh"]]
    assert found(corpus, "crimson", also=also, kb="other") == [manuals["other"]]
    assert found(corpus, "crimson", also=also, kb="other", doc_ids=[manuals["pump"]]) == []
    assert found(corpus, "crimson", also=also, doc_ids=[]) == []


def test_an_empty_wording_changes_nothing(corpus, manuals):
    assert corpus.search("crimson pump", also=[Query("  ", 1.0)]) == corpus.search("crimson pump")
    assert corpus.search("zzz", also=[Query("qqq", 1.0)]) == ()
