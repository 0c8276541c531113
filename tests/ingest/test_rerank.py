"""Who reads the first hits moves them and loses none: any cross-encoder's folder, or whoever weighs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.rerank import MOST_READ, MOST_WEIGHED, CrossEncoderReranker, fused, reranked, weighed
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


# ------------------------------------------------------------------ weighed

LOOKED_AT = 5
WEIGHTS = st.none() | st.floats(-9.0, 0.0)


@given(st.lists(st.tuples(st.sampled_from(["en", "zh", None]), WEIGHTS), max_size=MOST_WEIGHED))
def test_what_is_weighed_moves_only_to_places_of_its_own_language(read):
    """Nothing is lost or added, languages keep their places, and so does what was not read."""
    groups, weights = [group for group, _ in read], [weight for _, weight in read]
    order = fused(groups, weights)
    assert sorted(order) == list(range(len(read)))
    assert [groups[at] for at in order] == groups
    assert [at for place, at in enumerate(order) if weights[place] is None] == [
        at for at, weight in enumerate(weights) if weight is None
    ]


@given(st.lists(st.floats(-9.0, 0.0), max_size=MOST_WEIGHED))
def test_weights_that_agree_with_the_search_change_nothing(weights):
    assert fused(["en"] * len(weights), sorted(weights, reverse=True)) == list(range(len(weights)))
    assert fused(["en"] * len(weights), [-1.0] * len(weights)) == list(range(len(weights)))


@given(st.permutations(range(MOST_WEIGHED)))
def test_the_first_that_is_found_stays_among_those_looked_at_whatever_it_weighs(ranks):
    order = fused(["en"] * MOST_WEIGHED, [-float(rank) for rank in ranks])
    assert order.index(0) < LOOKED_AT


@given(st.permutations(range(MOST_WEIGHED)))
def test_what_weighs_most_comes_among_those_looked_at(ranks):
    """Wherever among the first it was found."""
    order = fused(["en"] * MOST_WEIGHED, [-float(rank) for rank in ranks])
    assert order.index(ranks.index(0)) < LOOKED_AT


@given(st.permutations(range(MOST_WEIGHED)), st.integers(0, MOST_WEIGHED - 1))
def test_who_weighs_more_never_falls_behind_for_it(ranks, at):
    """To become the heaviest can only help."""
    weights = [-float(rank) for rank in ranks]
    heavier = [*weights[:at], 1.0, *weights[at + 1 :]]
    groups = ["en"] * MOST_WEIGHED
    assert fused(groups, heavier).index(at) <= fused(groups, weights).index(at)


def test_the_first_are_weighed_and_what_is_behind_them_stays():
    """Scores stay the search's; a single hit is not weighed."""
    hits = [hit(number, f"{number} pumps of brass") for number in range(MOST_WEIGHED + 5)]
    seen: list[str] = []

    def last_is_best(texts: Sequence[str]) -> Sequence[float]:
        seen.extend(texts)
        return list(range(len(texts)))

    found = weighed(last_is_best, hits)
    assert seen == [one.text for one in hits[:MOST_WEIGHED]]
    assert found[MOST_WEIGHED:] == tuple(hits[MOST_WEIGHED:])
    assert set(found) == set(hits)
    assert found.index(hits[MOST_WEIGHED - 1]) < LOOKED_AT
    assert weighed(last_is_best, hits[:1]) == (hits[0],)
    assert len(seen) == MOST_WEIGHED


def test_a_search_gives_its_best_after_more_were_weighed_than_it_gives(pumps):
    """A named cross-encoder is not argued with: then nothing is weighed."""
    plain, reranker = Corpus.open(pumps, IngestSettings(embedder="hashing")), ByLength()
    order = [one.text for one in plain.search("crimson pump")]
    seen: list[int] = []

    def second_is_best(texts: Sequence[str]) -> Sequence[float]:
        seen.append(len(texts))
        return [float(text == order[1]) for text in texts]

    found = plain.search("crimson pump", k=2, weigh=second_is_best)
    assert {one.text for one in found} == set(order[:2])
    assert seen == [len(order)]
    asked = Corpus.open(pumps, IngestSettings(embedder="hashing"), reranker=reranker)
    assert asked.search("crimson pump", weigh=second_is_best) == asked.search("crimson pump")
    assert seen == [len(order)]
    plain.close()
    asked.close()
