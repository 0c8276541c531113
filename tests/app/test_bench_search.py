"""`readonce bench search`: JSON that is pure on stdout, a table, and figures of the base that was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from library import Run

from ingest.index import open_home
from ingest.invented import PASSAGES_A_DOCUMENT, InventedBase, InventedEmbedder
from ingest.keywords import question_words


@pytest.mark.parametrize("index", ["faiss", "numpy"])
def test_the_figures_are_of_the_size_and_the_index_that_were_asked_for(
    command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, index: str
) -> None:
    """Nothing of the home is touched, and what is found is what NumPy finds."""
    monkeypatch.setenv("READONCE_VECTOR_INDEX", index)
    code, out, err = command(
        "bench", "search", "--passages", "400", "--questions", "20", "--embedder", "hashing", "--json"
    )
    assert code == 0, err
    figures = json.loads(out)
    assert (figures["index"], figures["num_passages"], figures["num_documents"]) == (index, 400, 2)
    assert (figures["num_questions"], figures["num_differing"]) == (20, 0)
    for part in ("search", "words", "meaning", "filtered", "embedding"):
        spread = figures[part]
        assert 0 < spread["p50_ms"] <= spread["p95_ms"] <= spread["worst_ms"]
    assert figures["memory_mb"] >= figures["memory_before_mb"] > 0
    assert not (tmp_path / "home").exists()


def test_the_table_says_what_was_measured(command: Run) -> None:
    code, out, err = command("bench", "search", "--passages", "300", "--questions", "20", "--embedder", "none")
    assert code == 0, err
    assert "300 passages in 1 document, 20 questions, faiss, one core" in out
    assert "\nthe question's vector " not in out
    assert "for 20 of 20 questions" in out


def test_a_size_that_is_none_is_refused(command: Run) -> None:
    assert command("bench", "search", "--passages", "3")[0] == 2


def test_an_unknown_index_is_refused_without_showing_a_password(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READONCE_VECTOR_INDEX", "mysql://me:secret@host/base")
    code, _, err = command("bench", "search")
    assert (code, "secret" in err, "vector_index" in err.lower()) == (2, False, True)


def test_an_invented_base_is_the_same_each_time_and_its_questions_are_about_it() -> None:
    """Spans hold the passages' words, and each question's words stand in one passage."""
    base = InventedBase(PASSAGES_A_DOCUMENT + 10)
    (first, vectors), (second, _) = base.documents()
    assert len(vectors) == PASSAGES_A_DOCUMENT
    assert [len(one.passages) for one in (first, second)] == [PASSAGES_A_DOCUMENT, 10]
    again, _ = next(InventedBase(PASSAGES_A_DOCUMENT + 10).documents())
    assert again.document.text == first.document.text
    texts = [
        set(one.document.text[passage.start : passage.end].split())
        for one in (first, second)
        for passage in one.passages
    ]
    asked = base.questions(5)
    for question in asked:
        assert any(set(question_words(question.text)) <= words for words in texts)
    assert InventedEmbedder(asked).embed_question(asked[0].text) is asked[0].vector


def test_no_kind_of_index_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    for kind in ("faiss", "numpy", "postgresql://nowhere/none"):
        open_home(kind, tmp_path / "missing" / "file")
    assert list(tmp_path.iterdir()) == []
