"""An edited document embeds only what changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_replaced_document_embeds_only_the_part_that_was_edited(tmp_path, write):
    """The other parts keep their vectors, and all are found as before; nothing is kept of the part that went."""
    embedder = Counting()
    corpus = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing"), embedder=embedder)
    parts = [f"# Part {n}\n\nThe pump number {n} stops at {n} at night, and it starts again at dawn." for n in range(6)]
    corpus.add(write("manual.md", "\n\n".join(parts)))
    assert len(embedder.embedded) == 6
    embedder.embedded.clear()
    parts[3] = "# Part 3\n\nThe crimson boiler is heated before noon."
    added = corpus.add(write("manual.md", "\n\n".join(parts)))
    assert added.status == "replaced"
    assert len(embedder.embedded) == 1
    assert "crimson boiler" in embedder.embedded[0]
    assert "crimson boiler" in corpus.search("crimson boiler")[0].text
    assert "number 5" in corpus.search("pump number 5")[0].text
    embedder.embedded.clear()
    parts[3] = "# Part 3\n\nThe pump number 3 stops at 3 at night, and it starts again at dawn."
    corpus.add(write("manual.md", "\n\n".join(parts) + "\n"))
    assert any("number 3" in text for text in embedder.embedded)
    corpus.close()
