"""Decides how many model tokens a text is worth, without a tokenizer: the same on every machine, for ever."""

from __future__ import annotations

import re

from ingest.sentences import CJK

_PIECE = re.compile(rf"[A-Za-z]+|[{CJK}]+|[0-9]|\n+|[^\sA-Za-z0-9{CJK}]+")


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of `text` in a byte-pair vocabulary of 150,000 entries such as Qwen's."""
    total = 0.0
    for piece in _PIECE.findall(text):
        first = piece[0]
        if first.isascii() and first.isalpha():
            total += 1.0 if len(piece) <= 6 else 1.0 + (len(piece) - 6) * 0.12
        elif first.isdigit() or first == "\n":
            total += 1.0
        elif not first.isascii():
            total += len(piece) * 0.65
        else:
            total += (len(piece) + 1) // 2
    return round(total)
