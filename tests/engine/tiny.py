"""Builds a tokenizer of a few hundred tokens: bytes, some merges that could cross a seam, ChatML specials."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

# How GPT-2 and SmolLM2 split a text, and how Qwen does: they differ in what a line break sticks to.
_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_MERGES = ["Ċ Ċ", ". Ċ", ".Ċ Ċ", ". ĊĊ", "t h", "th e", "Ġ th", "Ġ the", "Ġth e", "i n", "e r", "a n", "] Ċ", "ĊĊ Ċ"]


def write_tiny_tokenizer(folder: Path, *, qwen: bool = False, specials: bool = True) -> Path:
    """Writes `tokenizer.json`, byte for byte the same each time; returns `folder`."""
    merges = [tuple(merge.split(" ")) for merge in _MERGES]
    vocabulary = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary += list(dict.fromkeys(left + right for left, right in merges))
    tokenizer = Tokenizer(BPE({token: number for number, token in enumerate(vocabulary)}, merges))
    if qwen:
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_QWEN_SPLIT), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    tokenizer.decoder = decoders.ByteLevel()
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] if specials else ["<|endoftext|>"]
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
