"""Decides how a model's words become the page's Markdown: nothing in them may load, link or hide anything.

A document can make a model write an image address that carries the question away, or a link that looks like ours. So
images, links and addresses become plain words; what is left of Markdown is emphasis, lists, tables and code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# Chainlit turns each exact occurrence of an element's name into the link that opens it, so a mark's name has to be a
# string that no model writes: its number in brackets and an invisible word joiner.
_JOINER = "\u2060"
_MARK = re.compile(r"\[(\d{1,3})\]")

_INSIDE = r"\(\s*(?:<[^>\n]*>|(?:[^()\s]|\([^()\s]*\))*)(?:\s+[^)\n]*)?\)"
_IMAGE = re.compile(r"!\[[^\]\n]*\]" + _INSIDE)
_LINK = re.compile(r"\[([^\]\n]*)\]" + _INSIDE)
_BARE_ADDRESS = re.compile(r"<?\b(?:(?:https?|ftp|data|javascript)://|www\.)[^\s<>()\[\]]*>?", re.IGNORECASE)
# An answer that repeats a document's heading would be set as one to its end.
_FIRST_HEADING = re.compile(r"\A\s*#{1,6}\s+")
# `:word` is a directive to Chainlit's Markdown and would vanish.
_DIRECTIVE = re.compile(r"(?<![\\:/])(:{1,3})(?=[A-Za-z])")
# While the words stream, marks still hold the model's paragraph numbers; the checked answer brings the right ones.
_RAW_MARK = re.compile(r"\s?\[(?:\d{1,4}(?:\s*[,;]\s*\d{0,4})*(?:\]|$)|$)")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff]")


def safe_markdown(text: str, allowed_in: str = "") -> str:
    """`text` without images, links and addresses; an address that stands in `allowed_in` stays, as code."""
    text = _FIRST_HEADING.sub("", _INVISIBLE.sub("", text))
    text = _IMAGE.sub("", text)
    text = _LINK.sub(lambda found: f"[{found[1]}]" if found[1].isdigit() else found[1], text)
    # Here what is nested too deep to be found as one.
    return _DIRECTIVE.sub(r"\\\1", without_addresses(text, allowed_in))


def without_addresses(text: str, allowed_in: str = "") -> str:
    """`text` in which no Markdown finds an image, a link or a definition, and no reader an address.

    An address that stands in `allowed_in` stays, as code. Words joined from pieces that each went through this are
    safe too where no piece ends with "]" or in the middle of a word.
    """
    text = text.replace("](", "] (").replace("]:", "]\\:")
    return _BARE_ADDRESS.sub(lambda found: _address(found[0], allowed_in), text)


def streamed_markdown(text: str) -> str:
    """The same for an answer that is still being written: without its marks, which are not checked yet."""
    return safe_markdown(_RAW_MARK.sub("", text))


def _address(found: str, allowed_in: str) -> str:
    address = found.strip("<>").rstrip(".,;:!?")
    rest = found.strip("<>")[len(address) :]
    return (f"`{address}`" if address in allowed_in else "") + rest


def mark_name(number: int) -> str:
    """What the mark `[number]` is called in an answer's text and as an element."""
    return f"[{number}]{_JOINER}"


def with_marks(text: str, numbers: set[int]) -> str:
    """`text` with the marks of `numbers` written as the names of their elements."""
    return _MARK.sub(lambda found: mark_name(int(found[1])) if int(found[1]) in numbers else found[0], text)


def source_name(numbers: Sequence[int], title: str, where: str) -> str:
    """The line below an answer that opens a source: "[1] [3] handbook.pdf · p. 7"; no Markdown in it from the title."""
    marks = " ".join(f"[{number}]" for number in numbers)
    return f"{marks} {plain_title(title)} · {where}"


def plain_title(title: str, most: int = 60) -> str:
    """`title` with nothing in it that Markdown could take for a sign, shortened to `most` characters."""
    folded = unicodedata.normalize("NFC", title)
    kept = "".join(character if _is_plain(character) else " " for character in folded)
    short = re.sub(r"\bwww\.", "www ", " ".join(kept.split()), flags=re.IGNORECASE)
    return short if len(short) <= most else short[: most - 1].rstrip() + "…"


def plain_question(question: str) -> str:
    """A question of the model's as plain words, to be asked as it stands."""
    return plain_words(question)


def plain_words(text: str) -> str:
    """A model's words as one line that is shown as it stands, without addresses."""
    return " ".join(without_addresses(_INVISIBLE.sub("", text)).split())


def _is_plain(character: str) -> bool:
    return character.isalnum() or character in " .,-–—·'’()（）《》、，。" or unicodedata.category(character)[0] == "M"
