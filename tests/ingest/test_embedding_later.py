"""A document can be asked before its passages are embedded, and whoever comes next goes on with what is missing."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from ingest import embedding
from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.embed import BatchDone, Vectors
from ingest.embed_hashing import HashingEmbedder

SETTINGS = IngestSettings(embedder="hashing", section_tokens=300)
FACTS = "\n\n".join(f"# Part {n}\n\nThe pump number zq{n} stops at {n} and starts at dawn." for n in range(30))


class Noting(HashingEmbedder):
    """Keeps what it was asked to embed; `before` runs before each batch."""

    def __init__(self) -> None:
        super().__init__(max_tokens=40)
        self.embedded: list[str] = []
        self.num_questions = 0
        self.before = lambda: None

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        self.before()
        self.embedded += texts
        made = HashingEmbedder(max_tokens=40)
        return made.embed_passages(texts, batch_done)

    def embed_question(self, text: str) -> Vectors:
        self.num_questions += 1
        return super().embed_question(text)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(embedding, "BATCH", 4)


@pytest.fixture
def noting() -> Noting:
    return Noting()


@pytest.fixture
def later(tmp_path, noting) -> Corpus:
    return Corpus.open(tmp_path / "h", SETTINGS, embedder=noting)


def test_a_document_is_found_by_its_words_before_anything_is_embedded(later, noting, write):
    """Its text and whole sections are there, and no model is asked for a question's vector."""
    added = later.add(write("facts.md", FACTS), embed=False)
    (document,) = later.documents()
    assert (document.status, document.embedded, document.passages) == ("ok", 0, 30)
    assert document.is_embedding
    assert "zq7 " in later.search("pump zq7")[0].text
    assert len(later.sections(added.document_id)) > 1
    assert noting.embedded == []
    assert noting.num_questions == 0
    assert later.embed_missing() == 30
    assert not later.document(added.document_id).is_embedding
    assert later.search("pump zq7")[0].dense_score > 0


def test_half_embedded_is_found_by_vectors_where_they_are_and_by_words_everywhere(later, noting, write, tmp_path):
    """A stop between two batches keeps what was committed; what has its words stands first, embedded or not."""
    stop = threading.Event()
    noting.before = lambda: stop.set() if len(noting.embedded) == 8 else None
    doc_id = later.add(write("facts.md", FACTS), embed=False).document_id
    later.embed_missing(stop=stop)
    assert later.document(doc_id).embedded == 12
    for n in range(30):
        assert f"zq{n} " in later.search(f"pump zq{n}")[0].text
    assert sum(hit.dense_score > 0 for hit in later.search("pump stops and starts at dawn", k=30)) == 12
    assert Corpus.open(tmp_path / "h", SETTINGS, embedder=noting).embed_missing() == 18
    assert len(noting.embedded) == len(set(noting.embedded)) == 30


def test_an_unchanged_file_added_again_is_embedded_to_its_end(later, noting, write):
    path = write("facts.md", FACTS)
    later.add(path, embed=False)
    assert later.add(path).status == "unchanged"
    assert len(noting.embedded) == 30


def test_two_that_embed_at_once_share_the_work(later, noting, write):
    """Each passage is embedded once, and both return when all are."""
    later.add(write("facts.md", FACTS), embed=False)
    threads = [threading.Thread(target=later.embed_missing) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert later.num_to_embed() == 0
    assert len(noting.embedded) == len(set(noting.embedded)) == 30


def test_a_document_removed_while_it_is_embedded_leaves_nothing(later, noting, write):
    """Neither a vector nor an error."""
    doc_id = later.add(write("facts.md", FACTS), embed=False).document_id
    noting.before = lambda: later.remove(doc_id) if len(noting.embedded) == 4 else None
    later.embed_missing()
    assert later.num_to_embed() == 0
    assert later._database.connection.execute("SELECT count(*) FROM passages").fetchone()[0] == 0
    assert later.search("pump zq7") == ()


def test_vectors_of_an_embedder_that_the_base_no_longer_has_are_refused(later, noting, write, tmp_path):
    """It was rebuilt with another one in the middle: no vector of the old one comes in."""

    class Other(HashingEmbedder):
        name = "other"

    later.add(write("facts.md", FACTS), embed=False)
    other = Corpus.open(tmp_path / "h", SETTINGS, embedder=Other())
    noting.before = lambda: other.rebuild() if len(noting.embedded) == 4 else None
    with pytest.raises(IngestError) as caught:
        later.embed_missing()
    assert caught.value.code == "embedder_changed"
    assert other.num_to_embed() == 0
