"""Decides how a booklet's source reads: a small Markdown file with a head, chapters (#), sections (##) and tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path


class SourceError(Exception):
    """A source file that can't be understood, as one sentence with the file's name."""


@dataclass(frozen=True)
class Head:
    """The lines between the two `---` at the top of a source.

    Attributes:
        edition: Printed on the cover, below the author.
        language: "en" or "zh"; chooses how lines are broken.
        contents: The heading of the table of contents.
        front_matter: The title of the chapter that stands before the contents, "" for none.
        colour: Of the cover, headings and rules: six hexadecimal digits.
    """

    title: str
    subtitle: str
    author: str
    edition: str
    language: str
    subject: str
    contents: str
    front_matter: str
    colour: str


@dataclass(frozen=True)
class Section:
    """A heading of the second level."""

    title: str


@dataclass(frozen=True)
class Text:
    """One paragraph, without line breaks."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first row is the table's head. All rows are equally long."""

    rows: tuple[tuple[str, ...], ...]


Block = Section | Text | Table


@dataclass(frozen=True)
class Chapter:
    """A heading of the first level and all that stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Booklet:
    """A whole source file."""

    head: Head
    chapters: tuple[Chapter, ...]


def read(path: Path) -> Booklet:
    """Reads a source file; raises `SourceError` where its head, a table or a chapter is malformed."""
    parts = re.split(r"^---\n", path.read_text(encoding="utf-8"), maxsplit=2, flags=re.MULTILINE)
    if len(parts) != 3 or parts[0]:
        raise SourceError(f"{path.name} must open with a head between two lines of three hyphens.")
    before, *chapters = re.split(r"^# ", parts[2], flags=re.MULTILINE)
    if before.strip() or not chapters:
        raise SourceError(f"{path.name} must go on with a chapter ('# Title') after its head.")
    return Booklet(_head(parts[1], path.name), tuple(_chapter(chapter, path.name) for chapter in chapters))


def _head(text: str, name: str) -> Head:
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    wanted = {field.name for field in fields(Head)}
    if values.keys() != wanted:
        wrong = ", ".join(sorted(values.keys() ^ wanted))
        raise SourceError(f"{name}: the head must hold each known key once; missing or unknown: {wrong}.")
    return Head(**values)


def _chapter(text: str, name: str) -> Chapter:
    title, _, body = text.partition("\n")
    pieces = [piece.strip() for piece in re.split(r"\n\s*\n", body) if piece.strip()]
    return Chapter(title.strip(), tuple(_block(piece, name) for piece in pieces))


def _block(piece: str, name: str) -> Block:
    if piece.startswith("## "):
        return Section(piece.removeprefix("## "))
    if piece.startswith("|"):
        return _table(piece, name)
    if piece.startswith(("#", "-", "*", ">")) or "\n" in piece:
        raise SourceError(
            f"{name}: only '# ', '## ', tables and paragraphs of one line are known, not: {piece[:40]!r}."
        )
    return Text(piece)


def _table(piece: str, name: str) -> Table:
    rows = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in piece.splitlines()]
    rule = rows.pop(1) if len(rows) > 2 else ()
    if set("".join(rule)) != {"-"} or len(list(groupby(map(len, rows)))) != 1:
        raise SourceError(f"{name}: a table needs a head, a rule and rows of the same length: {piece[:40]!r}.")
    return Table(tuple(rows))
