"""Ids become words as they come: the pieces joined are what decoding all of them gives, up to a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny import write_tiny_tokenizer
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE

from engine.detokenize import Detokenizer, Vocabulary

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
TEXTS = st.text(
    st.one_of(
        st.sampled_from("文档没有说明。，！\n .é\u0301\u200d<|>"),
        st.sampled_from("\U0001f469\U0001f467\U0001f3fd\U0001f1e9\U0001f1ea"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)


@pytest.fixture(scope="module", params=["gpt2", "qwen"])
def vocabulary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = write_tiny_tokenizer(tmp_path_factory.mktemp("tiny"), qwen=request.param == "qwen")
    return Vocabulary(Tokenizer.from_file(str(folder / "tokenizer.json")))


@cache
def byte_fallback() -> Vocabulary:
    """As Llama 2 and Gemma write words: a mark for the space, and bytes only for what is in no token."""
    tokens = ["▁", "a", "b", "▁the", "文", *(f"<0x{number:02X}>" for number in range(256))]
    model = BPE({token: number for number, token in enumerate(tokens)}, [], byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Vocabulary(tokenizer)


def in_steps(vocabulary: Vocabulary, ids: Sequence[int], sizes: Sequence[int], stop: Sequence[str] = ()) -> list[str]:
    """The pieces; the steps' sizes are taken over and over."""
    detokenizer, pieces, at, turn = Detokenizer(vocabulary, stop), [], 0, 0
    while at < len(ids):
        size = sizes[turn % len(sizes)]
        pieces.append(detokenizer.step(ids[at : at + size]))
        at, turn = at + size, turn + 1
    return [*pieces, detokenizer.finish()]


def before_stop(text: str, stop: Sequence[str]) -> str:
    """Of two that overlap, the one counts that is whole first."""
    ends = [(text.find(one) + len(one), text.find(one)) for one in stop if one in text]
    return text[: min(ends)[1]] if ends else text


SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(ids=st.lists(st.integers(0, 280), max_size=60), sizes=SIZES)
@settings(max_examples=150, deadline=None)
def test_pieces_of_any_ids_join_to_their_words(vocabulary: Vocabulary, ids: list[int], sizes: list[int]) -> None:
    """Broken bytes, special tokens and ids that there are not, in steps of any size."""
    assert "".join(in_steps(vocabulary, ids, sizes)) == vocabulary.decode(ids)


@given(text=TEXTS, sizes=SIZES)
@example(text=FAMILY + "家庭" + FAMILY, sizes=[1])
@settings(max_examples=150, deadline=None)
def test_pieces_of_a_text_are_whole_characters(vocabulary: Vocabulary, text: str, sizes: list[int]) -> None:
    """No piece of a sound text holds half a character, and joined they are the text."""
    ids = vocabulary.tokenizer.encode(text, add_special_tokens=False).ids
    pieces = in_steps(vocabulary, ids, sizes)
    assert "".join(pieces) == vocabulary.decode(ids)
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


@given(text=TEXTS, stop=st.lists(st.text("a。文\n<|", min_size=1, max_size=4), max_size=3), sizes=SIZES)
@example(text="ab<|x", stop=["<|x"], sizes=[1])
@example(text="aab", stop=["ab", "aab"], sizes=[1])
@example(text="|。文", stop=["。", "|。文"], sizes=[1])
@example(text="|。文", stop=["。", "|。文"], sizes=[3])
@settings(max_examples=200, deadline=None)
def test_words_end_before_the_first_stop_string(
    vocabulary: Vocabulary, text: str, stop: list[str], sizes: list[int]
) -> None:
    """Also where it lies across tokens; what was let out is always a beginning of the answer."""
    ids = vocabulary.tokenizer.encode(text, add_special_tokens=False).ids
    expected = before_stop(vocabulary.decode(ids), stop)
    pieces = in_steps(vocabulary, ids, sizes, stop)
    assert "".join(pieces) == expected


def test_what_a_stop_string_could_begin_with_is_held_back(vocabulary: Vocabulary) -> None:
    """Given out once it turns out to be something else; the stream says when it is over."""
    ids = {character: vocabulary.tokenizer.encode(character).ids for character in "xEND-"}
    detokenizer = Detokenizer(vocabulary, ["END"])
    steps = [detokenizer.step(ids[character]) for character in "xEN-xE"]
    assert steps == ["x", "", "", "EN-", "x", ""]
    assert not detokenizer.stopped
    assert [detokenizer.step(ids["N"]), detokenizer.step(ids["D"]), detokenizer.step(ids["x"])] == ["", "", ""]
    assert detokenizer.stopped
    assert detokenizer.finish() == ""


def test_a_character_comes_with_its_last_byte(vocabulary: Vocabulary) -> None:
    """Three tokens of one byte each make one Chinese character."""
    ids = vocabulary.tokenizer.encode("文").ids
    assert len(ids) == 3
    assert in_steps(vocabulary, ids, [1]) == ["", "", "文", ""]
    assert in_steps(vocabulary, ids[:2], [1]) == ["", "", "\ufffd"]


@given(text=st.text("ab 文字\U0001f467é", max_size=30), sizes=SIZES)
@settings(max_examples=100, deadline=None)
def test_a_tokenizer_that_writes_no_bytes_joins_too(text: str, sizes: list[int]) -> None:
    """Spaces as marks, one dropped at the beginning, bytes only for rare characters."""
    vocabulary = byte_fallback()
    assert not vocabulary.writes_bytes
    ids = vocabulary.tokenizer.encode("▁" + text.replace(" ", "▁")).ids
    pieces = in_steps(vocabulary, ids, sizes)
    assert "".join(pieces) == vocabulary.decode(ids) == text


@pytest.mark.engine  # among the tests that fetch it
def test_a_real_tokenizer_joins_too(tmp_path: Path) -> None:
    """SmolLM2's 49,152 tokens, each one of them, and a text of many scripts."""
    path = real_tokenizer()
    vocabulary = Vocabulary(Tokenizer.from_file(str(path)))
    assert vocabulary.writes_bytes
    every = list(range(vocabulary.tokenizer.get_vocab_size()))
    assert "".join(in_steps(vocabulary, every, [1, 7])) == vocabulary.decode(every)
    text = f"The locker. 文档没有说明。{FAMILY} Привет\r\n\tnaïve 🇩🇪"
    ids = vocabulary.tokenizer.encode(text, add_special_tokens=False).ids
    assert "".join(in_steps(vocabulary, ids, [1])) == text


def real_tokenizer() -> Path:
    from platformdirs import user_cache_dir

    found = sorted((Path(user_cache_dir("readonce")) / "models").glob("smollm2*/tokenizer.json"))
    if not found:
        pytest.skip("SmolLM2's tokenizer has not been fetched on this machine")
    return found[0]
