"""Decides which of the model's words a program sees while they stream: no marks, no refusal half said, no address.

A document can make a model write an address that carries the question away, and programs show images.

The marks of the stream count paragraphs of the document; those of the checked answer count its citations. A program
can't take words back, so the former are left out, and a beginning that may become a refusal is held until it is known.
"""

from __future__ import annotations

import re

from app.page.text import without_addresses
from engine.refusal import NOT_TOLD

_MARK = re.compile(r"\s*\[\s*\d+(?:\s*[,;、-]\s*\d+)*\s*\]")
_MAYBE = re.compile(r"\s*(?:\[(?:\s*\d+(?:\s*[,;、-]\s*\d+)*)?(?:\s*[,;、-])?\s*)?")
_PLAIN = re.compile(r"[^\s\[]+")


class Shown:
    """Takes words as they come, gives those that can be shown. The same whatever pieces they came in."""

    def __init__(self) -> None:
        self._waiting = ""
        self._begun = False
        self._last = ""

    def take(self, words: str) -> str:
        self._waiting += words
        if not self._begun and self._may_refuse():
            return ""
        return self._through()

    def end(self) -> str:
        """What was still held, once nothing more comes and the answer stands."""
        shown = self._through(ended=True)
        return shown.rstrip()

    def _may_refuse(self) -> bool:
        begins = self._waiting.lstrip().lower()
        told = NOT_TOLD.lower()
        self._begun = not (told.startswith(begins) or begins.startswith(told))
        return not self._begun

    def _through(self, ended: bool = False) -> str:
        shown, at, length = "", 0, len(self._waiting)
        while at < length:
            mark = _MARK.match(self._waiting, at)
            if mark:
                at = mark.end()
                continue
            if not ended and _MAYBE.fullmatch(self._waiting, at):
                break
            plain = _PLAIN.match(self._waiting, at)
            if plain and plain.end() == length and not ended:
                break  # a word that may go on: of an address no half is shown
            end = plain.end() if plain else at + 1
            shown += self._joined(without_addresses(self._waiting[at:end]))
            at = end
        self._waiting = self._waiting[at:]
        return shown

    def _joined(self, piece: str) -> str:
        """Where a mark fell out between "]" and "(" they must not meet: that would be a link."""
        if self._last == "]" and piece[:1] in ("(", ":"):
            piece = " " + piece
        self._last = piece[-1:] or self._last
        return piece
