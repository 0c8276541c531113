"""Decides what a document is called: the first of its names that a person can read, on one line."""

from __future__ import annotations

from pathlib import PurePath

_MOST_CHARACTERS = 200


def title_of(name: str, *candidates: str | None) -> str:
    """The first candidate with something to see in it, else what the file is called without its ending."""
    for candidate in (*candidates, PurePath(name).stem, name):
        if title := one_line(candidate or ""):
            return title
    return "?"


def one_line(text: str) -> str:
    """Its words with single blanks between them, without characters that show nothing, at most 200 characters."""
    seen = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(seen.split())[:_MOST_CHARACTERS].rstrip()
