"""Vectors of questions that were asked a moment ago are not made anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ingest.corpus import Corpus
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
