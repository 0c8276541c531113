"""Decides what the model reads at once: runs of paragraphs within the section budget, cut at headings, then pages.

The choice is the cheapest way through the document: sections as even and full as the budget allows, each cut priced
by what stands there. It depends on the document and the budget alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.document import Document, Heading, Paragraph, Section
from ingest.paragraphs import flow
from ingest.tokens import estimate_tokens

# Each paragraph is read as "[N] text", on a line of its own.
MARK_TOKENS = 6
_PAGE_PRICE, _PARAGRAPH_PRICE = 0.10, 0.20


def paragraph_tokens(document: Document, paragraphs: Sequence[Paragraph]) -> tuple[int, ...]:
    """What each paragraph costs the model to read, its mark included, in estimated tokens."""
    text = document.text
    return tuple(estimate_tokens(flow(text[p.start : p.end])) + MARK_TOKENS for p in paragraphs)


def split_sections(document: Document, paragraphs: Sequence[Paragraph], section_tokens: int) -> tuple[Section, ...]:
    """Packs `paragraphs` into sections of at most `section_tokens`; a document within the budget is one section."""
    if not paragraphs:
        return ()
    costs = paragraph_tokens(document, paragraphs)
    firsts = _cheapest_cuts(costs, _cut_prices(document, paragraphs), section_tokens)
    sections = []
    for number, (first, after) in enumerate(zip(firsts, [*firsts[1:], len(paragraphs)], strict=True), 1):
        run = paragraphs[first:after]
        sections.append(
            Section(
                number,
                document.title if len(firsts) == 1 else _title(document, run[0].start, run[-1].end),
                run[0].start,
                run[-1].end,
                run[0].page,
                run[-1].page,
                run[0].number,
                run[-1].number,
                sum(costs[first:after]),
            )
        )
    return tuple(sections)


def _cut_prices(document: Document, paragraphs: Sequence[Paragraph]) -> list[float]:
    """The price of cutting before each paragraph."""
    levels: dict[int, int] = {}
    for heading in document.headings:
        levels[heading.start] = min(heading.level, levels.get(heading.start, heading.level))
    prices = []
    for before, paragraph in zip([None, *paragraphs[:-1]], paragraphs, strict=True):
        level = levels.get(paragraph.start)
        if level is not None:
            prices.append(0.02 * (min(level, 4) - 1))
        elif before is not None and before.page != paragraph.page:
            prices.append(_PAGE_PRICE)
        else:
            prices.append(_PARAGRAPH_PRICE)
    return prices


def _cheapest_cuts(costs: Sequence[int], prices: Sequence[float], budget: int) -> list[int]:
    """Indices of the paragraphs that open a section; a paragraph over the budget stands alone."""
    best = [0.0]
    came_from = [0]
    for end in range(1, len(costs) + 1):
        size, choice, choice_cost = 0, end - 1, float("inf")
        for first in range(end - 1, -1, -1):
            size += costs[first]
            if size > budget and first < end - 1:
                break
            cost = best[first] + (prices[first] if first else 0.0) + (1.0 - min(1.0, size / budget)) ** 2
            if cost < choice_cost:
                choice, choice_cost = first, cost
        best.append(choice_cost)
        came_from.append(choice)
    cuts = []
    at = len(costs)
    while at > 0:
        at = came_from[at]
        cuts.append(at)
    return cuts[::-1]


def heading_path(headings: Sequence[Heading], place: int) -> tuple[Heading, ...]:
    """The headings that `place` stands under, highest first."""
    path: list[Heading] = []
    for heading in headings:
        if heading.start > place:
            break
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
    return tuple(path)


def _title(document: Document, start: int, end: int) -> str:
    path = heading_path(document.headings, start)
    if not path:
        path = tuple(heading for heading in document.headings if start <= heading.start < end)[:1]
    return " > ".join(heading.title for heading in path) or document.title
