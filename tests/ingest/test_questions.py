"""Vectors of questions that were asked a moment ago are not made anew."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ingest.corpus import Corpus
from ingest.document import IngestError
from ingest.embed import Vectors
from ingest.embed_hashing import HashingEmbedder
from ingest.questions import Questions
from ingest.settings import IngestSettings


class Counting(HashingEmbedder):
    """Notes what it is asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded: list[str] = []

    def embed_question(self, text: str) -> Vectors:
        self.embedded.append(text)
        return super().embed_question(text)


def test_a_question_is_embedded_once_and_the_oldest_leaves() -> None:
    """Each embedder's vectors are its own."""
    questions, one, other = Questions(most=2), Counting(), Counting()
    first = questions.vector(one, "Where is the pump?")
    assert questions.vector(one, "Where is the pump?") is first
    assert np.array_equal(questions.vector(other, "Where is the pump?"), first)
    questions.vector(one, "And the valve?")
    questions.vector(one, "Where is the pump?")
    assert one.embedded == ["Where is the pump?", "And the valve?", "Where is the pump?"]
    assert other.embedded == ["Where is the pump?"]


def test_a_search_in_other_words_embeds_only_those(tmp_path: Path) -> None:
    """The question itself was embedded by the search before."""
    path = tmp_path / "pumps.md"
    path.write_text("The crimson pump stands in the cellar.\n")
    embedder = Counting()
    corpus = Corpus.open(tmp_path / "home", IngestSettings(), embedder=embedder)
    corpus.add(path)
    embedder.embedded.clear()
    alone = corpus.search("Where is the crimson pump?")
    both = corpus.search("Where is the crimson pump?", also=("In which room is the red pump?",))
    corpus.close()
    assert embedder.embedded == ["Where is the crimson pump?", "In which room is the red pump?"]
    assert [hit.text for hit in alone] == [hit.text for hit in both] == ["The crimson pump stands in the cellar."]


def test_who_asks_for_a_vector_that_is_being_made_waits_for_it() -> None:
    """However many ask meanwhile, it is made once."""
    begun, go_on, questions = threading.Event(), threading.Event(), Questions()

    class Slow(Counting):
        def embed_question(self, text: str) -> Vectors:
            begun.set()
            assert go_on.wait(10)
            return super().embed_question(text)

    slow = Slow()
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(questions.vector, slow, "Where is the pump?") for _ in range(4)]
        assert begun.wait(10)
        go_on.set()
        made = [one.result() for one in asked]
    assert all(one is made[0] for one in made)
    assert slow.embedded == ["Where is the pump?"]


def test_a_vector_that_could_not_be_made_is_tried_again() -> None:
    class Failing(Counting):
        def embed_question(self, text: str) -> Vectors:
            vector = super().embed_question(text)
            if len(self.embedded) == 1:
                raise IngestError("embedder_missing", "It is not there.")
            return vector

    questions, failing = Questions(), Failing()
    with pytest.raises(IngestError):
        questions.vector(failing, "Where is the pump?")
    made = questions.vector(failing, "Where is the pump?")
    assert np.array_equal(made, Counting().embed_question("Where is the pump?"))


def test_what_is_prepared_is_embedded_by_then_and_not_before_there_is_anything_to_find(tmp_path: Path) -> None:
    path = tmp_path / "pumps.md"
    path.write_text("The crimson pump stands in the cellar.\n")
    embedder = Counting()
    corpus = Corpus.open(tmp_path / "home", IngestSettings(), embedder=embedder)
    corpus.prepare("Where is the crimson pump?")
    assert embedder.embedded == []
    corpus.add(path)
    embedder.embedded.clear()
    corpus.prepare("Where is the crimson pump?")
    assert corpus.search("Where is the crimson pump?")
    corpus.close()
    assert embedder.embedded == ["Where is the crimson pump?"]
