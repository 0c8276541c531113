"""Decides how the bytes of a text or Markdown file become characters, once and for all, when the file is taken in."""

from __future__ import annotations

import re
from pathlib import PurePath

from ingest.document import PAGE_BREAK, Document, DocumentKind, Heading, IngestError, Page
from ingest.encoding import decode
from ingest.title import title_of

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_PROSE = frozenset({".txt", ".text", ""})
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")


def read_text(data: bytes, document_id: str, name: str, kind: DocumentKind, max_pages: int) -> Document:
    """Reads a text file; a form feed starts a new page, as in RFCs and in `pdftotext`'s output.

    Raises:
        IngestError: `unknown_encoding`, `garbled_text`, `too_large` or `empty_document`.
    """
    text, warnings = decode(data, name)
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    if not text.strip():
        raise IngestError("empty_document", f"{name} holds nothing but white space: was the right file chosen?")
    if (num_pages := text.count(PAGE_BREAK) + 1) > max_pages:
        raise IngestError("too_large", f"{name} has {num_pages:,} pages, the limit is {max_pages:,}: split the file.")
    pages = tuple(Page(number, page) for number, page in enumerate(text.split(PAGE_BREAK), 1))
    # Many text files are Markdown in all but name; in a script's file a "#" opens a remark.
    is_marked = kind == "md" or (PurePath(name).suffix.lower() in _PROSE and text.lstrip().startswith("# "))
    headings = _markdown_headings(text) if is_marked else ()
    first = headings[0].title if headings and headings[0].level == 1 else ""
    return Document(document_id, title_of(name, first), kind, pages, headings, tuple(warnings))


def _markdown_headings(text: str) -> tuple[Heading, ...]:
    """ATX headings (`# Title`) outside fenced code and front matter."""
    headings = []
    fence: str | None = None
    at = _front_matter_end(text)
    for line in text[at:].split("\n"):
        mark = _FENCE.match(line)
        if mark and fence is None:
            fence = mark.group(1)
        elif mark and fence is not None and mark.group(1).startswith(fence):
            fence = None
        elif fence is None and (found := _HEADING.match(line)) and found.group(2):
            headings.append(Heading(found.group(2), len(found.group(1)), at + line.index("#")))
        at += len(line) + 1
    return tuple(headings)


def _front_matter_end(text: str) -> int:
    """Where YAML front matter ends; 0 where there is none."""
    if not text.startswith("---\n"):
        return 0
    end = text.find("\n---\n", 3)
    return 0 if end < 0 else end + 5
