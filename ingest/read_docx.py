"""Decides what a Word file says: body, tables, text boxes, headers, footers, notes and comments, by python-docx.

What tracked changes have deleted is left out, what they have inserted is in; macros and linked files stay unopened.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from ingest.archive import checked, translated
from ingest.blocks import Block, Table, Title, Words, lay_out
from ingest.coverage import UNSEEN_ADVICE
from ingest.document import Document, IngestError
from ingest.docx_unseen import has_unseen_words
from ingest.title import title_of

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FORMULA = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_MAIN_TYPES = (
    "application/vnd.ms-word.document.macroEnabled.main+xml",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
    "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
)
_HEADING_STYLE = re.compile(r"heading (\d)", re.IGNORECASE)
_OF_WORDS = re.compile(r"/(?:header|footer|footnotes|endnotes)\d*\.xml$")
_MOST_STYLE_STEPS = 20
_MARKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}


def read_docx(data: bytes, document_id: str, name: str) -> Document:
    """Reads a Word file into one page: where its pages end is decided anew by whatever prints it.

    Raises:
        IngestError: `corrupt`, `too_complex`, `too_large`, `password_required` or `empty_document`.
    """
    checked(data, name, is_office=True).close()
    with translated(name):
        document = _opened(data)
        blocks = list(_blocks(document))
        title = document.core_properties.title
        unseen = has_unseen_words(_roots(document), document.styles.element)
    laid = lay_out(blocks)
    if laid.is_empty:
        raise IngestError("empty_document", f"{name} holds no words: save it as PDF if it is made of pictures.")
    first = next((block.text for block in blocks if isinstance(block, Title)), "")
    warnings = (f"It holds words that can't be seen (hidden, white or tiny): {UNSEEN_ADVICE}.",) if unseen else ()
    return Document(document_id, title_of(name, title, first), "docx", laid.pages, laid.headings, warnings)


def _opened(data: bytes) -> Any:
    import docx.package
    from docx.opc.part import PartFactory
    from docx.parts.document import DocumentPart

    for content_type in _MAIN_TYPES:
        # Templates and files with macros have the same body; python-docx knows it by one type only.
        PartFactory.part_type_for[content_type] = DocumentPart
    return docx.package.Package.open(io.BytesIO(data)).main_document_part.document


def _roots(document: Any) -> Iterator[Any]:
    """The trees of all parts whose words are read, but for comments."""
    from docx.oxml.parser import parse_xml

    yield document.element
    for part in document.part.package.iter_parts():
        if _OF_WORDS.search(part.partname):
            yield parse_xml(part.blob)


def _blocks(document: Any) -> Iterator[Block]:
    levels = _heading_levels(document)
    margins = list(_margins(document, levels))
    yield from (block for is_header, block in margins if is_header)
    yield from _content(document.element.body, levels)
    for part in document.part.package.iter_parts():
        if part.partname.endswith(("/footnotes.xml", "/endnotes.xml")):
            yield from _notes(part, levels)
    for comment in document.comments:
        text = " ".join(" ".join(_paragraph(one)[0] for one in comment._comment_elm.iter(_W + "p")).split())
        if text:
            yield Words(f"Comment by {comment.author}: {text}" if comment.author else f"Comment: {text}")
    yield from (block for is_header, block in margins if not is_header)


def _margins(document: Any, levels: dict[str, int]) -> Iterator[tuple[bool, Block]]:
    """Headers (True) and footers (False) of all sections, each wording once."""
    seen: set[Block] = set()
    for section in document.sections:
        for kind in (
            "first_page_header",
            "even_page_header",
            "header",
            "first_page_footer",
            "even_page_footer",
            "footer",
        ):
            margin = getattr(section, kind)
            if margin.is_linked_to_previous:
                continue
            for block in _content(margin._element, levels):
                # A heading style in a margin heads no section.
                kept = Words(block.text) if isinstance(block, Title) else block
                if kept not in seen:
                    seen.add(kept)
                    yield kind.endswith("header"), kept


def _notes(part: Any, levels: dict[str, int]) -> Iterator[Block]:
    from docx.oxml.parser import parse_xml

    for note in parse_xml(part.blob):
        if note.get(_W + "type") not in ("separator", "continuationSeparator", "continuationNotice"):
            yield from _content(note, levels)


def _heading_levels(document: Any) -> dict[str, int]:
    """The level of each paragraph style that makes headings, by its id; Word's own or by the outline level."""
    parents: dict[str, str | None] = {}
    own: dict[str, int] = {}
    for style in document.styles.element.iter(_W + "style"):
        style_id = style.get(_W + "styleId")
        named = style.find(_W + "name")
        based = style.find(_W + "basedOn")
        outline = style.find(f"{_W}pPr/{_W}outlineLvl")
        found = _HEADING_STYLE.fullmatch(named.get(_W + "val", "") if named is not None else "")
        parents[style_id] = None if based is None else based.get(_W + "val")
        if found:
            own[style_id] = int(found.group(1))
        elif named is not None and named.get(_W + "val", "").lower() == "title":
            own[style_id] = 1
        elif outline is not None and outline.get(_W + "val", "").isdecimal() and int(outline.get(_W + "val")) < 9:
            own[style_id] = int(outline.get(_W + "val")) + 1
    levels = {}
    for style_id in parents:
        at: str | None = style_id
        for _ in range(_MOST_STYLE_STEPS):  # styles of a bad file may stand on each other in a ring
            if at is None or at in own:
                break
            at = parents.get(at)
        if at in own:
            levels[style_id] = own[at]
    return levels


def _content(container: Any, levels: dict[str, int]) -> Iterator[Block]:
    """Paragraphs and tables in order, also those in content controls and in tracked insertions."""
    for child in container:
        if child.tag == _W + "p":
            yield from _of_paragraph(child, levels)
        elif child.tag == _W + "tbl":
            yield _table(child)
        elif child.tag not in (_W + "del", _W + "moveFrom", _W + "sectPr"):
            yield from _content(child, levels)


def _of_paragraph(paragraph: Any, levels: dict[str, int]) -> Iterator[Block]:
    text, boxes = _paragraph(paragraph)
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    outline = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
    level = levels.get(style.get(_W + "val", "")) if style is not None else None
    if outline is not None and outline.get(_W + "val", "").isdecimal():
        level = int(outline.get(_W + "val")) + 1 if int(outline.get(_W + "val")) < 9 else None
    if level is not None and text.strip():
        yield Title(text, level)
    else:
        yield Words(text, tight=paragraph.find(f"{_W}pPr/{_W}numPr") is not None)
    for box in boxes:
        yield from _content(box, levels)


def _paragraph(paragraph: Any) -> tuple[str, list[Any]]:
    """The paragraph's own words, and the text boxes that hang on it."""
    pieces: list[str] = []
    boxes: list[Any] = []
    stack = [iter(paragraph)]
    while stack:
        child = next(stack[-1], None)
        if child is None:
            stack.pop()
        elif not isinstance(child.tag, str) or child.tag in (_FALLBACK, _W + "del", _W + "moveFrom", _W + "pPr"):
            continue
        elif child.tag == _W + "txbxContent":
            boxes.append(child)
        elif child.tag in (_W + "t", _FORMULA + "t"):
            pieces.append(child.text or "")
        elif child.tag.startswith(_W) and child.tag[len(_W) :] in _MARKS:
            pieces.append(_MARKS[child.tag[len(_W) :]])
        else:
            stack.append(iter(child))
    return "".join(pieces), boxes


def _table(table: Any) -> Table:
    """Its rows; a cell over several columns fills them, one that goes on from above is empty there."""
    rows = [_row(row) for row in _rows(table)]
    look = table.find(f"{_W}tblPr/{_W}tblLook")
    first = next(_rows(table), None)
    marked = first is not None and first.find(f"{_W}trPr/{_W}tblHeader") is not None
    styled = look is not None and (
        look.get(_W + "firstRow") in ("1", "true") or int(look.get(_W + "val", "0") or "0", 16) & 0x20 != 0
    )
    return Table(tuple(rows), has_header=len(rows) > 1 and (marked or styled))


def _rows(container: Any) -> Iterator[Any]:
    for child in container:
        if child.tag == _W + "tr":
            yield child
        elif child.tag in (_W + "sdt", _W + "sdtContent", _W + "ins", _W + "customXml"):
            yield from _rows(child)


def _row(row: Any) -> tuple[str, ...]:
    cells: list[str] = []
    for cell in _cells(row):
        properties = cell.find(_W + "tcPr")
        span = properties.find(_W + "gridSpan") if properties is not None else None
        merge = properties.find(_W + "vMerge") if properties is not None else None
        goes_on = merge is not None and merge.get(_W + "val", "continue") == "continue"
        # Paragraphs of a table in the cell come along in their order.
        cells.append("" if goes_on else " ".join(_paragraph(one)[0] for one in cell.iter(_W + "p")))
        width = span.get(_W + "val", "1") if span is not None else "1"
        cells += [""] * (min(int(width), 100) - 1 if width.isdecimal() else 0)
    return tuple(cells)


def _cells(container: Any) -> Iterator[Any]:
    for child in container:
        if child.tag == _W + "tc":
            yield child
        elif child.tag in (_W + "sdt", _W + "sdtContent", _W + "ins", _W + "customXml"):
            yield from _cells(child)
