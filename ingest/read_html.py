"""Decides what a web page says to its reader, by lxml: no script is run, nothing is fetched, no hidden text is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ingest.archive import translated
from ingest.blocks import Block, Table, Title, Words, lay_out
from ingest.coverage import UNSEEN_ADVICE
from ingest.document import Document, IngestError
from ingest.encoding import decode_declared
from ingest.html_unseen import has_unseen_words
from ingest.title import title_of

_UNSEEN = frozenset({"script", "style", "template", "head", "svg", "math", "iframe", "object", "select", "datalist"})
_BREAKING = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure "
        "footer form header hr legend li main nav ol p pre section summary table tbody td tfoot th thead tr ul",
    )
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NOT_DATA = ("table", *_HEADINGS)
_UNSEEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_DECLARED = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_MOST_SPAN = 100


def read_html(data: bytes, document_id: str, name: str) -> Document:
    """Reads a web page into one page.

    Raises:
        IngestError: `unknown_encoding`, `garbled_text`, `corrupt`, `too_complex` or `empty_document`.
    """
    declared = _DECLARED.search(data[:4096])
    text, warnings = decode_declared(data, name, declared.group(1).decode("ascii", "replace") if declared else None)
    with translated(name):
        root = parsed(text)
        blocks = [] if root is None else list(html_blocks(root))
        title = "" if root is None else root.findtext(".//title")
        if root is not None and has_unseen_words(root):
            warnings = [*warnings, f"It holds words that can't be seen (white, tiny or see-through): {UNSEEN_ADVICE}."]
    laid = lay_out(blocks)
    if laid.is_empty:
        raise IngestError(
            "empty_document", f"{name} shows no words without its scripts: print it to PDF from a browser."
        )
    first = next((heading.title for heading in laid.headings), "")
    return Document(document_id, title_of(name, title, first), "html", laid.pages, laid.headings, tuple(warnings))


def parsed(text: str) -> Any:
    """The tree of a page, None where there is none; nested deeper than a browser goes it is flattened, not lost."""
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    return etree.fromstring(text.replace("\0", "").encode("utf-8", "replace"), parser)


def html_blocks(root: Any) -> Iterator[Block]:
    """What a reader sees, in order; tables that only arrange the page are taken apart."""
    from lxml import etree

    held: list[str] = []
    level: int | None = None
    item = False
    preformatted = 0
    walk = etree.iterwalk(root, events=("start", "end"))

    def flushed() -> Iterator[Block]:
        text = _folded("".join(held))
        held.clear()
        if text:
            yield Words(f"- {text}", tight=True) if item else Words(text)

    for event, element in walk:
        tag = element.tag if isinstance(element.tag, str) else ""
        tag = tag.rpartition("}")[2].lower()
        if event == "start":
            if _is_unseen(element, tag):
                walk.skip_subtree()
                continue
            if tag == "table" and _is_data(element):
                yield from flushed()
                yield from _table(element)
                walk.skip_subtree()
                continue
            if tag in _HEADINGS:
                yield from flushed()
                level, item = _HEADINGS[tag], False
            elif tag in _BREAKING and level is None:
                yield from flushed()
                item = tag == "li" or (item and tag in ("p", "div"))
            elif tag in _BREAKING:
                held.append(" ")
            preformatted += tag == "pre"
            held.append(_own_words(element, tag, element.text, preformatted))
        else:
            if tag in _HEADINGS and level is not None:
                text = " ".join(_folded("".join(held)).split())
                held.clear()
                if text:
                    yield Title(text, level)
                level = None
            elif tag in _BREAKING and level is None and not _is_unseen(element, tag):
                yield from flushed()
                item = item and tag not in ("li", "ul", "ol")
            preformatted -= tag == "pre" and not _is_unseen(element, tag)
            if element is not root:
                held.append(_spaced(element.tail, preformatted))
    yield from flushed()


_LINE, _SPACE, _TAB = "\ufdd0", "\ufdd1", "\ufdd2"  # code points that Unicode keeps free of characters
"""A line end, a blank and a tab that must stay, while all other white space is folded."""


def _own_words(element: Any, tag: str, text: str | None, preformatted: int) -> str:
    if tag == "br":
        return _LINE
    if tag == "img":
        return " " + (element.get("alt") or "") + " "
    return _spaced(text, preformatted)


def _spaced(text: str | None, preformatted: int) -> str:
    if not text or not preformatted:
        return text or ""
    kept = text.replace("\r\n", "\n").replace("\n", _LINE).replace("\t", _TAB)
    return kept.replace(" ", _SPACE)


def _folded(text: str) -> str:
    one_line = re.sub(r"[ \t\n\r\f\v]+", " ", text)
    lines = [line.strip(" ") for line in one_line.split(_LINE)]
    return "\n".join(lines).replace(_SPACE, " ").replace(_TAB, "\t").strip("\n").rstrip()


def _is_unseen(element: Any, tag: str) -> bool:
    return (
        tag in _UNSEEN
        or not isinstance(element.tag, str)
        or element.get("hidden") is not None
        or _UNSEEN_STYLE.search(element.get("style") or "") is not None
    )


def _is_data(table: Any) -> bool:
    """A table within a table, or with headings in it, arranges the page."""
    return next(table.iterdescendants(*_NOT_DATA), None) is None


def _table(table: Any) -> Iterator[Block]:
    caption = table.find("caption")
    if caption is not None and (words := _seen(caption)):
        yield Words(words)
    rows: list[tuple[str, ...]] = []
    has_header = False
    from_above: dict[int, int] = {}
    for row in table.iterdescendants("tr"):
        if _is_unseen(row, "tr"):
            continue
        cells: list[str] = []
        below: dict[int, int] = {}
        marked = True
        for cell in row.iterchildren("td", "th"):
            while len(cells) in from_above:
                cells.append("")
            if _is_unseen(cell, ""):
                continue
            marked = marked and cell.tag == "th"
            first, width, height = len(cells), _span(cell, "colspan"), _span(cell, "rowspan")
            cells += [_seen(cell)] + [""] * (width - 1)
            if height > 1:
                below |= {column: height - 1 for column in range(first, first + width)}
        from_above = {column: left - 1 for column, left in from_above.items() if left > 1} | below
        if not rows:
            has_header = bool(cells) and (marked or row.getparent().tag == "thead")
        rows.append(tuple(cells))
    yield Table(tuple(rows), has_header=has_header and len(rows) > 1)


def _span(cell: Any, name: str) -> int:
    value = (cell.get(name) or "").strip()
    return max(1, min(int(value), _MOST_SPAN)) if value.isascii() and value.isdecimal() and len(value) < 9 else 1


def _seen(element: Any) -> str:
    return " ".join(block.text for block in html_blocks(element) if isinstance(block, Title | Words))
