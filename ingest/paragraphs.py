"""Decides the units that an answer may cite: about 40 to 90 words (80 to 160 Chinese characters) of one page.

A unit ends where a sentence, a block of lines or a page ends. Units cover every character that is not white space and
depend on nothing but the document, so that their numbers mean the same for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ingest.document import Document, Paragraph
from ingest.sentences import CJK, sentence_spans, shorter_spans, weight

LEAST_WEIGHT, MOST_WEIGHT = 40.0, 90.0
_GOOD_WEIGHT = 70.0


@dataclass(frozen=True)
class _Atom:
    """A sentence, or a piece of one that is too long to be cited whole."""

    start: int
    end: int
    weight: float
    opens_block: bool
    is_heading: bool


def split_paragraphs(document: Document) -> tuple[Paragraph, ...]:
    """Cuts a document into its citable units, numbered from 1."""
    heading_starts = frozenset(heading.start for heading in document.headings)
    paragraphs: list[Paragraph] = []
    for page, page_start in zip(document.pages, document.page_starts, strict=True):
        atoms = _atoms(document.text, page_start, page_start + len(page.text), heading_starts)
        for start, end in _packed(atoms):
            paragraphs.append(Paragraph(len(paragraphs) + 1, page.number, start, end))
    return tuple(paragraphs)


def _atoms(text: str, start: int, end: int, heading_starts: frozenset[int]) -> Iterator[_Atom]:
    cuts = sorted({start, end} | {at for at in heading_starts if start <= at < end})
    for block_start, block_end in pairwise(cuts):
        last_end = block_start
        for sentence_start, sentence_end in sentence_spans(text, block_start, block_end):
            for piece_start, piece_end in shorter_spans(text, sentence_start, sentence_end, MOST_WEIGHT):
                yield _Atom(
                    piece_start,
                    piece_end,
                    weight(text[piece_start:piece_end]),
                    text.count("\n", last_end, piece_start) > 1,
                    block_start in heading_starts and text[block_start:piece_start].strip() == "",
                )
                last_end = piece_end


def _packed(atoms: Iterator[_Atom]) -> Iterator[tuple[int, int]]:
    held: list[_Atom] = []
    held_weight = 0.0
    for atom in atoms:
        full = held_weight + atom.weight
        closes = (
            (atom.is_heading and not all(earlier.is_heading for earlier in held))
            or full > MOST_WEIGHT
            or (held_weight >= LEAST_WEIGHT and (atom.opens_block or full > _GOOD_WEIGHT))
        )
        if held and closes:
            yield held[0].start, held[-1].end
            held, held_weight = [], 0.0
        held.append(atom)
        held_weight += atom.weight
    if held:
        yield held[0].start, held[-1].end


_BETWEEN_CJK = re.compile(rf"(?<=[{CJK}，。、；：！？）》」』”])\s*\n\s*(?=[{CJK}，。、；：！？（《「『“])")
_SPACE = re.compile(r"\s+")


def flow(text: str) -> str:
    """Joins the lines of a page for reading: white space folded, lines of Chinese or Japanese joined without a blank.

    The result without its white space equals `text` without its white space: a quote is found again on its page.
    """
    return _SPACE.sub(" ", _BETWEEN_CJK.sub("", text)).strip()
