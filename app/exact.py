"""Decides which tokens of an answer count only as a whole: numbers, and names that are written in code, not in words.

`asn1_remove` is no half of `asn1_delete`, and 2.4 is not 2.4.1: such a token stands in a text exactly, or not at all.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from app.terms import CJK, NUMBER_WORDS, normal

_LETTER = rf"[^\W\d_{CJK}]"
_SIGN = rf"[^\W_{CJK}]"
_OPTION = rf"(?<![\w-])--?{_LETTER}{_SIGN}*(?:-{_SIGN}+)*"
_TOKEN = re.compile(
    rf"{_OPTION}|(?:/|_+)?{_SIGN}+(?:(?:[-_.@+]|/|::?|://)_*{_SIGN}+)*_*(?:\+\+|#)?(?!{_SIGN})",
)
_NUMBER = re.compile(rf"(?<![^\W_{CJK}])(?<!\d[.:])\d+(?:[.:]\d+)*")
# "5MB", "24th", "10-year": a number with its unit, and no name.
_MEASURED = re.compile(rf"\d[\d.,:]*(?:{_LETTER}{{1,3}}|-{_LETTER}+)?|\d[\d.,:/-]*")
_INITIALS = re.compile(rf"{_LETTER}(?:\.{_LETTER})+")
_SHORT = re.compile(r"([a-z]+)[-.]?(\d+)")
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")


@dataclass(frozen=True)
class Exact:
    """The exact tokens of a text, in one spelling: case folded, numbers without leading noughts."""

    numbers: frozenset[str]
    names: frozenset[str]

    def beyond(self, other: Exact) -> Exact:
        """Those that `other` lacks."""
        return Exact(self.numbers - other.numbers, self.names - other.names)


def exact(text: str) -> Exact:
    """The numbers and names of a text; digits that belong to a name (ASN.1, x86) are no numbers."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    rest, names, at = [], set(), 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if _is_name(token):
            names.add(normal(token))
            rest.append(text[at : match.start()])
            at = match.end()
    return Exact(numbers_of(" ".join([*rest, text[at:]])), frozenset(names))


def numbers_of(text: str) -> frozenset[str]:
    """Every number that a text writes in digits, names' own included where a sign sets them off, or in a word to 12."""
    text = normal(text)
    digits = (_plain(number) for number in _NUMBER.findall(text))
    return frozenset([*digits, *(NUMBER_WORDS[word] for word in re.findall(r"[a-z]+", text) if word in NUMBER_WORDS)])


def holds_name(text: str, name: str) -> bool:
    """Whether the name stands in `text` as a whole. A hyphen may be a blank there, or nothing.

    One of letters and a number (ASN.1) may be written with any sign or none, and begin another one ("asn1_encode").

    Args:
        text: As `normal` gives it.
    """
    return _whole(name).search(text) is not None


@lru_cache(1_024)
def _whole(name: str) -> re.Pattern[str]:
    short = _SHORT.fullmatch(name)
    if short is not None:
        return re.compile(rf"(?<!{_SIGN}){short[1]}[-‐‑–.\s]?{short[2]}(?!{_SIGN}|[-.:/@]+{_SIGN})")
    lead = len(name) - len(name.lstrip("-"))
    written = re.escape(name[:lead]) + r"[-‐‑–\s]?".join(re.escape(part) for part in name[lead:].split("-"))
    before = r"(?<![\w-])" if lead else rf"(?<![^\W{CJK}])(?<!{_SIGN}-)"
    return re.compile(rf"{before}{written}(?![^\W{CJK}]|[-.:/@]+{_SIGN})")


def _plain(number: str) -> str:
    return (number.lstrip("0") or "0") if number.isdigit() else number


def _is_name(token: str) -> bool:
    """Whether it is no word of a language: signs inside, letters beside digits, a capital behind a small letter."""
    if _MEASURED.fullmatch(token) or _INITIALS.fullmatch(token):
        return False
    if token.startswith("-") or re.search(r"[_@:]|\.|\+\+|#", token) or token.startswith("/") or token.count("/") > 1:
        return True
    has_digit = any(character.isdigit() for character in token)
    return (has_digit and not token[0].isdigit()) or _INNER_CAPITAL.search(token) is not None
