"""A reranker moves the first hits and loses none; any cross-encoder's folder will do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.rerank import MOST_READ, CrossEncoderReranker, reranked
from ingest.search import Hit

TEXTS = [
    "The crimson pump stops at midnight.",
    "A pump of brass.",
    "The pump is crimson, and it leaks.",
    "A crimson pump",
]


class ByLength:
    """Holds the shortest for the best, and notes what it read."""

    def __init__(self) -> None:
        self.read: list[tuple[str, int]] = []

    def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        self.read.append((question, len(texts)))
        return [-float(len(text)) for text in texts]


def hit(number: int, text: str) -> Hit:
    return Hit("d", number, 1, None, 0, len(text), 1.0, text, 0.0, None, 0.0)


@given(st.lists(st.integers(1, 9), max_size=2 * MOST_READ))
def test_the_first_are_put_in_order_and_nothing_is_lost_or_added(lengths):
    """Equal ones stay as they were, and so does all that is behind the first."""
    hits = [hit(number, "x" * length) for number, length in enumerate(lengths)]
    found = reranked(ByLength(), "q", hits)
    assert list(found[:MOST_READ]) == sorted(hits[:MOST_READ], key=lambda one: len(one.text))
    assert list(found[MOST_READ:]) == hits[MOST_READ:]


def test_a_single_hit_is_not_read():
    reranker = ByLength()
    assert reranked(reranker, "q", [hit(1, "x")]) == (hit(1, "x"),)
    assert reranker.read == []


@pytest.fixture
def pumps(tmp_path, write) -> Path:
    home = tmp_path / "reranked"
    corpus = Corpus.open(home, IngestSettings(embedder="hashing"))
    for number, text in enumerate(TEXTS):
        corpus.add(write(f"{number}.txt", text))
    corpus.close()
    return home


def test_a_search_gives_its_best_after_reranking_more_than_it_gives(pumps):
    """The shortest of four, though it is asked for one; what is found stays what was found."""
    plain, reranker = Corpus.open(pumps, IngestSettings(embedder="hashing")), ByLength()
    asked = Corpus.open(pumps, IngestSettings(embedder="hashing"), reranker=reranker)
    assert [one.text for one in asked.search("crimson pump", k=1)] == [TEXTS[3]]
    assert set(asked.search("crimson pump")) == set(plain.search("crimson pump"))
    assert reranker.read == [("crimson pump", 4)] * 2
    plain.close()
    asked.close()


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory) -> Path:
    """A BERT of one layer with weights drawn once: what it says means nothing, and it always says the same."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny-cross-encoder"
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(" ".join(TEXTS).lower().split()))]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(str(folder))
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=1,
        initializer_range=1.0,
    )
    BertForSequenceClassification(config).save_pretrained(str(folder))
    return folder


def test_a_cross_encoders_folder_decides_the_order(pumps, cross_encoder):
    """The order of a search is that of the scores which the library's own call gives."""
    scores = CrossEncoderReranker(str(cross_encoder), offline=True).scores("crimson pump", TEXTS)
    assert len(set(scores)) == len(TEXTS)
    corpus = Corpus.open(pumps, IngestSettings(embedder="hashing", reranker=str(cross_encoder), offline=True))
    best_first = sorted(range(len(TEXTS)), key=lambda at: -scores[at])
    assert [one.text for one in corpus.search("crimson pump")] == [TEXTS[at] for at in best_first]
    corpus.close()


def test_a_reranker_that_is_not_there_is_one_sentence_with_the_mend(pumps):
    corpus = Corpus.open(pumps, IngestSettings(embedder="hashing", reranker="./no-such/reranker", offline=True))
    with pytest.raises(IngestError, match="leave the setting empty") as caught:
        corpus.search("crimson pump")
    assert caught.value.code == "reranker_missing"
    assert "\n" not in caught.value.message
    corpus.close()
