"""Decides where a Chinese paragraph may be broken into lines."""

from __future__ import annotations

from collections.abc import Callable

# Lines neither begin with these nor end with those.
NOT_FIRST = "，。、；：？！）”’》…"
NOT_LAST = "（“‘《"


def broken(text: str, room_mm: float, width_mm: Callable[[str], float]) -> list[str]:
    """Splits `text` into lines that are at most `room_mm` wide and, joined, give it back."""
    lines: list[str] = []
    while text:
        end = len(text)
        while end > 1 and width_mm(text[:end]) > room_mm:
            end -= 1
        fitting = end
        while 1 < end < len(text) and _may_not_part(text[end - 1], text[end]):
            end -= 1
        # Nothing but unbreakable letters: rather an ugly line than none.
        end = end if end > 1 else fitting
        lines.append(text[:end])
        text = text[end:]
    return lines


def _may_not_part(before: str, after: str) -> bool:
    """Whether a line may not end between these two characters: punctuation rules, and numbers stay whole."""
    is_number = before.isascii() and after.isascii() and before.isalnum() and after.isalnum()
    return after in NOT_FIRST or before in NOT_LAST or is_number
