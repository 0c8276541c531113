"""Decides how far a text that replaces another one says the same: to which page, and for how many tokens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from ingest.document import Document, Paragraph, Section
from ingest.paragraphs import flow
from ingest.sections import paragraph_tokens


@dataclass(frozen=True)
class Version:
    """One text of a document, with what is read and cited of it."""

    document: Document
    paragraphs: tuple[Paragraph, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Difference:
    """What has become of a document that was replaced.

    Attributes:
        from_page: The sheet of the new text on which the first change stands, counted from 1; one past the last where
            pages were only left out at the end. None where the words are the same throughout.
        kept_tokens: What a model that has read the old text need not read again: what comes before the first change,
            in estimated tokens.
        all_tokens: What reading all of the new text costs, likewise.
        kept_sections: So many sections, from the first on, are the same as before.
    """

    from_page: int | None
    kept_tokens: int
    all_tokens: int
    kept_sections: int

    @property
    def words(self) -> str:
        """ "It differs from page 12 on; 5,120 of 9,000 tokens before that need not be read again." """
        where = "Its words are the same" if self.from_page is None else f"It differs from page {self.from_page} on"
        return f"{where}: of {self.all_tokens:,} tokens {self.kept_tokens:,} stay read."


def compare(old: Version, new: Version) -> Difference:
    """Compares two texts in the order in which a model reads them."""
    same = list(zip(_read(old), _read(new), strict=False))
    num_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], same))
    costs = paragraph_tokens(new.document, new.paragraphs)
    # The title stands before the text: under another one all of it is read again.
    if old.document.title != new.document.title:
        return Difference(_first_page(old, new), 0, sum(costs), 0)
    unchanged = takewhile(
        lambda pair: pair[0] == pair[1] and pair[1].last_paragraph <= num_same,
        zip(map(_shape, old.sections), map(_shape, new.sections), strict=False),
    )
    return Difference(
        _first_page(old, new), _tokens_kept(old, new, num_same, costs), sum(costs), sum(1 for _ in unchanged)
    )


@dataclass(frozen=True)
class _Shape:
    first_paragraph: int
    last_paragraph: int


def _shape(section: Section) -> _Shape:
    return _Shape(section.first_paragraph, section.last_paragraph)


def _tokens_kept(old: Version, new: Version, num_same: int, costs: tuple[int, ...]) -> int:
    """A section is found again as far as it begins where an old one began, and goes on alike."""
    begins = {section.first_paragraph: section.last_paragraph for section in old.sections}
    kept = 0
    for section in new.sections:
        if section.first_paragraph in begins:
            last = min(section.last_paragraph, begins[section.first_paragraph], num_same)
            kept += sum(costs[section.first_paragraph - 1 : last])
    return kept


def _read(version: Version) -> list[str]:
    """The paragraphs as a model reads them."""
    return [flow(version.document.text[one.start : one.end]) for one in version.paragraphs]


def _first_page(old: Version, new: Version) -> int | None:
    for before, after in zip(old.document.pages, new.document.pages, strict=False):
        if before.text != after.text:
            return after.number
    pages = len(old.document.pages), len(new.document.pages)
    return None if pages[0] == pages[1] else min(pages) + 1
