"""Decides what a presentation says: each slide a page, with its tables, charts, diagrams and speaker notes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

from ingest.archive import checked, translated
from ingest.blocks import Block, NewPage, Table, Title, Words, lay_out
from ingest.document import Document, IngestError
from ingest.title import one_line, title_of

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_FORMULA = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_DIAGRAM = "/diagramData"


def read_pptx(
    data: bytes, document_id: str, name: str, max_pages: int, page_done: Callable[[int, int], None]
) -> Document:
    """Reads the slides in the order in which they are shown, hidden ones too.

    Raises:
        IngestError: `corrupt`, `too_complex`, `too_large`, `password_required` or `empty_document`.
    """
    import pptx

    checked(data, name, is_office=True).close()
    blocks: list[Block] = []
    with translated(name):
        show = pptx.Presentation(io.BytesIO(data))
        slides = show.slides
        if len(slides) > max_pages:
            raise IngestError(
                "too_large", f"{name} has {len(slides):,} slides, the limit is {max_pages:,}: split the file."
            )
        for number, slide in enumerate(slides, 1):
            blocks.append(NewPage())
            blocks += _of_slide(slide)
            page_done(number, len(slides))
        title = one_line(show.core_properties.title or "")
    laid = lay_out(blocks)
    if laid.is_empty:
        raise IngestError(
            "empty_document", f"{name} holds no words: save it as PDF, so that the pictures on its slides can be read."
        )
    blank = [page.number for page in laid.pages if not page.text.strip()]
    warnings = (f"{len(blank)} of {len(laid.pages)} slides hold no words (pictures?).",) if blank else ()
    # What the program writes where its user has written none.
    given = title if title.lower() != "powerpoint presentation" else ""
    first = laid.headings[0].title if laid.headings else ""
    return Document(document_id, title_of(name, given, first), "pptx", laid.pages, laid.headings, warnings)


def _of_slide(slide: Any) -> Iterator[Block]:
    title = slide.shapes.title
    if title is not None and title.has_text_frame and title.text_frame.text.strip():
        yield Title(_plain(title.text_frame.text), 1)
    for shape in _shapes(slide.shapes):
        if title is None or shape.shape_id != title.shape_id:
            yield from _of_shape(shape)
    yield from _of_alternatives(slide.shapes._spTree)
    for relation in slide.part.rels.values():
        if relation.reltype.endswith(_DIAGRAM) and not relation.is_external:
            yield from _of_diagram(relation.target_part.blob)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = _plain(slide.notes_slide.notes_text_frame.text)
        if notes.strip():
            yield Words(f"Notes: {notes}")


def _shapes(shapes: Any) -> Iterator[Any]:
    """All shapes, those in groups too, without recursion: groups may be nested as deep as their maker likes."""
    stack = [iter(shapes)]
    while stack:
        shape = next(stack[-1], None)
        if shape is None:
            stack.pop()
        elif hasattr(shape, "shapes"):
            stack.append(iter(shape.shapes))
        else:
            yield shape


def _of_shape(shape: Any) -> Iterator[Block]:
    if shape.has_text_frame:
        for number, paragraph in enumerate(shape.text_frame.paragraphs):
            yield Words(_plain(paragraph.text), tight=number > 0)
    elif getattr(shape, "has_table", False) and shape.has_table:
        rows = tuple(tuple(_plain(cell.text) for cell in row.cells) for row in shape.table.rows)
        yield Table(rows, has_header=len(rows) > 1 and bool(shape.table.first_row))
    elif getattr(shape, "has_chart", False) and shape.has_chart:
        yield from _of_chart(shape.chart)


def _of_chart(chart: Any) -> Iterator[Block]:
    if chart.has_title and chart.chart_title.has_text_frame:
        yield Words(_plain(chart.chart_title.text_frame.text))
    for plot in chart.plots:
        categories = [str(category) for category in plot.categories]
        series = list(plot.series)
        rows = [("", *(str(one.name) for one in series))]
        for at, category in enumerate(categories):
            values = [one.values[at] if at < len(one.values) else None for one in series]
            rows.append((category, *("" if value is None else f"{value:.15g}" for value in values)))
        yield Table(tuple(rows), has_header=len(rows) > 1)


def _of_alternatives(tree: Any) -> Iterator[Block]:
    """Formulas and other late additions, written for new programs and again for old: python-pptx passes over both."""
    for alternative in tree.iter(_COMPATIBLE + "AlternateContent"):
        for choice in alternative:
            words = [_runs(paragraph) for paragraph in choice.iter(_A + "p")] or [_runs(choice)]
            if any(text.strip() for text in words):
                yield from (Words(text, tight=number > 0) for number, text in enumerate(words))
                break


def _runs(element: Any) -> str:
    return "".join(run.text or "" for run in element.iter(_A + "t", _FORMULA + "t"))


def _of_diagram(blob: bytes) -> Iterator[Block]:
    from pptx.oxml import parse_xml

    for paragraph in parse_xml(blob).iter(_A + "p"):
        yield Words(_runs(paragraph), tight=True)


def _plain(text: str) -> str:
    return text.replace("\v", "\n")
