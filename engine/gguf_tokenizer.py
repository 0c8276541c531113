"""Decides how the word lists inside a GGUF file become a tokenizer.json: the same ids as the model's own tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base import EngineError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from engine.gguf import Facts

CONTROL, USER_DEFINED = 3, 4  # llama.cpp's token types
PADDING = "[PAD"  # the converter's filler for rows of the matrix that no token uses

# How Qwen2 cuts text before merging: contractions, words, single digits, punctuation, line breaks, spaces.
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write_tokenizer(facts: Facts, folder: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json (with the chat template) into `folder`.

    Raises:
        EngineError: `model_unsupported` where the file cuts text in a way that is not known here.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models

    words = facts.key("tokenizer.ggml.tokens")
    merges = [
        (left, right) for left, _, right in (merge.partition(" ") for merge in facts.key("tokenizer.ggml.merges"))
    ]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, fuse_unk=False, byte_fallback=False))
    _cut(tokenizer, facts.key("tokenizer.ggml.pre", "default"))
    tokenizer.decoder = decoders.ByteLevel()
    kinds = dict(zip(words, facts.key("tokenizer.ggml.token_type"), strict=True))
    for kind, add in ((CONTROL, tokenizer.add_special_tokens), (USER_DEFINED, tokenizer.add_tokens)):
        chosen = [word for word in words if kinds[word] == kind and not word.startswith(PADDING)]
        add([AddedToken(word, special=kind == CONTROL, normalized=False) for word in chosen])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(_config(facts, words), indent=1))


def _cut(tokenizer: Tokenizer, how: str) -> None:
    from tokenizers import Regex, normalizers, pre_tokenizers

    if how == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        split: pre_tokenizers.PreTokenizer = pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated")
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    elif how == "smollm":
        split = pre_tokenizers.Digits(individual_digits=True)
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    else:
        raise EngineError(
            "model_unsupported", f"The GGUF file's tokenizer {how!r} is not known; known are qwen2, smollm."
        )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, as_bytes])


def _config(facts: Facts, words: list[str]) -> dict[str, Any]:
    padding = facts.key("tokenizer.ggml.padding_token_id", None)
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": words[facts.key("tokenizer.ggml.eos_token_id")],
        "pad_token": None if padding is None else words[padding],
        "bos_token": None,
        "unk_token": None,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": facts("context_length"),
        "chat_template": facts.key("tokenizer.chat_template", None),
    }
