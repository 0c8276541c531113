"""Decides which of the model's words a program sees while they stream: no paragraph marks, no refusal half said.

The marks of the stream count paragraphs of the document; those of the checked answer count its citations. A program
can't take words back, so the former are left out, and a beginning that may become a refusal is held until it is known.
"""

from __future__ import annotations

import re

from engine.refusal import NOT_TOLD

_MARK = re.compile(r"\s*\[\s*\d+(?:\s*[,;、-]\s*\d+)*\s*\]")
_MAYBE = re.compile(r"\s*(?:\[(?:\s*\d+(?:\s*[,;、-]\s*\d+)*)?(?:\s*[,;、-])?\s*)?")
_PLAIN = re.compile(r"[^\s\[]+")


class Shown:
    """Takes words as they come, gives those that can be shown. The same whatever pieces they came in."""

    def __init__(self) -> None:
        self._waiting = ""
        self._begun = False

    def take(self, words: str) -> str:
        self._waiting += words
        if not self._begun and self._may_refuse():
            return ""
        return self._through()

    def end(self) -> str:
        """What was still held, once nothing more comes and the answer stands."""
        shown = self._through() + self._waiting
        self._waiting = ""
        return shown.rstrip()

    def _may_refuse(self) -> bool:
        begins = self._waiting.lstrip().lower()
        told = NOT_TOLD.lower()
        self._begun = not (told.startswith(begins) or begins.startswith(told))
        return not self._begun

    def _through(self) -> str:
        shown, at = [], 0
        while at < len(self._waiting):
            mark = _MARK.match(self._waiting, at)
            if mark:
                at = mark.end()
            elif _MAYBE.fullmatch(self._waiting, at):
                break
            else:
                plain = _PLAIN.match(self._waiting, at)
                end = plain.end() if plain else at + 1
                shown.append(self._waiting[at:end])
                at = end
        self._waiting = self._waiting[at:]
        return "".join(shown)
