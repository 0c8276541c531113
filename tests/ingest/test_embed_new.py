"""An edited document embeds only what changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingest import known_vectors
from ingest.corpus import Corpus, IngestSettings
from ingest.embed import BatchDone, Vectors
from ingest.embed_hashing import HashingEmbedder
from ingest.embed_new import embed_new


class Counting(HashingEmbedder):
    """Keeps what it was asked to embed."""

    def __init__(self) -> None:
        super().__init__(max_tokens=40)
        self.embedded: list[str] = []

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        self.embedded += texts
        return super().embed_passages(texts, batch_done)


texts = st.lists(st.text(alphabet="abc ", max_size=4), max_size=12)


@given(texts, texts)
def test_vectors_are_the_same_as_if_all_had_been_embedded(first, second):
    """Each text that is new is embedded once; its place does not matter."""
    one = Counting()
    known = dict(zip(first, one.embed_passages(first), strict=True))
    one.embedded.clear()
    assert np.array_equal(embed_new(one, second, known), HashingEmbedder().embed_passages(second))
    assert sorted(one.embedded) == sorted(set(second) - set(first))


PARTS = [f"# Part {n}\n\nThe pump number {n} stops at {n} at night, and it starts again at dawn." for n in range(6)]
EDITED = [*PARTS[:3], "# Part 3\n\nThe crimson boiler is heated before noon.", *PARTS[4:]]


def text(parts: Sequence[str]) -> str:
    return "\n\n".join(parts)


def test_a_replaced_document_embeds_only_the_part_that_was_edited(tmp_path, write):
    """The other parts keep their vectors, and all are found as before; an edit that is taken back costs nothing."""
    embedder = Counting()
    corpus = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing"), embedder=embedder)
    corpus.add(write("manual.md", text(PARTS)))
    assert len(embedder.embedded) == 6
    embedder.embedded.clear()
    assert corpus.add(write("manual.md", text(EDITED))).status == "replaced"
    assert len(embedder.embedded) == 1
    assert "crimson boiler" in embedder.embedded[0]
    assert "crimson boiler" in corpus.search("crimson boiler")[0].text
    assert "number 5" in corpus.search("pump number 5")[0].text
    embedder.embedded.clear()
    corpus.add(write("manual.md", text(PARTS) + "\n"))
    assert embedder.embedded == []
    assert "number 3" in corpus.search("pump number 3")[0].text
    corpus.close()


def test_documents_that_share_passages_embed_them_once(tmp_path, write):
    """A contract in two versions under two names: only what differs is embedded a second time."""
    embedder = Counting()
    corpus = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing"), embedder=embedder)
    corpus.add(write("first.md", text(PARTS)))
    second = corpus.add(write("second.md", text(EDITED))).document_id
    assert len(embedder.embedded) == 7
    assert corpus.document(second).embedded == 6
    corpus.close()


def test_nothing_is_kept_of_a_document_that_was_removed(tmp_path, write):
    """Neither its own vectors nor those of the text that it had replaced: added again, all of it is embedded again."""
    embedder = Counting()
    corpus = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing"), embedder=embedder)
    corpus.add(write("manual.md", text(PARTS)))
    added = corpus.add(write("manual.md", text(EDITED)))
    corpus.remove(added.document_id)
    embedder.embedded.clear()
    corpus.add(write("manual.md", text(PARTS)))
    assert len(embedder.embedded) == 6
    corpus.close()


def test_no_more_vectors_of_replaced_texts_are_kept_than_the_bound(tmp_path, write, monkeypatch):
    """Those used last stay."""
    monkeypatch.setattr(known_vectors, "MOST_FORMER", 5)
    embedder = Counting()
    corpus = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing"), embedder=embedder)
    for version in range(4):
        parts = [f"# Part {n}\n\nVersion {version} of the pump number {n} stops at night." for n in range(4)]
        corpus.add(write("manual.md", text(parts)))
    count = corpus._database.connection.execute("SELECT count(*) FROM former_vectors").fetchone()[0]
    assert count == 5
    embedder.embedded.clear()
    parts = [f"# Part {n}\n\nVersion 2 of the pump number {n} stops at night." for n in range(4)]
    corpus.add(write("manual.md", text(parts)))
    assert embedder.embedded == []
    corpus.close()
