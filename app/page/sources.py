"""Decides what a person sees of a source: its name under the answer, the rendered sheet, or a text file's passage."""

from __future__ import annotations

import base64
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.answer import Citation
from app.page.newer import newer_version
from app.page.places import sheet_of, sheet_words
from app.page.text import plain_title
from app.page.words import say
from app.problem import tell
from app.words import Language
from ingest.document import SHEETED, IngestError

if TYPE_CHECKING:
    from app.people.member import Member
    from ingest.corpus import StoredDocument
    from ingest.render import Sheet

AROUND_CHARACTERS = 900


def where(citation: Citation, document: StoredDocument | None, language: Language) -> str:
    """ "p. 7", "p. iv, sheet 4 of 16", or "paragraph 12" of a file without pages."""
    if document is not None and document.kind not in SHEETED:
        return say("paragraph", language, number=citation.paragraph)
    named = sheet_words(citation.page, citation.label, document.pages if document else None, language)
    return named + say("by_ocr", language) if citation.ocr else named


def source_props(citation: Citation, place: str, language: Language) -> dict[str, Any]:
    """What SourcePane.jsx gets; the sheet itself is fetched when the pane opens."""
    return {
        "doc_id": citation.doc_id,
        "title": plain_title(citation.title, most=120),
        "page": citation.page,
        "start": citation.start,
        "end": citation.end,
        "quote": citation.quote,
        "heading": f"[{citation.number}] {plain_title(citation.title)}",
        "where": place,
        "words": {
            "lost": say("source_lost", language),
            "unmarked": say("unmarked", language),
            "previous": say("previous", language),
            "next": say("next", language),
        },
    }


def open_source(member: Member, asked: dict[str, Any], language: Language) -> dict[str, Any]:
    """What SourcePane.jsx shows for `asked` (doc_id, page, start, end, quote: from the browser, nothing is trusted).

    A document that `member` may not read is answered like one that was removed. Blocking.
    A sheet {image, aspect, boxes, where, pages}, a passage {before, quote, after}, or {problem: sentence}; with
    `removed` nothing of the document may be shown. `newer` is what may be asked for instead.
    """
    try:
        doc_id = str(asked["doc_id"])
        page, start, end = (max(0, int(asked[key])) for key in ("page", "start", "end"))
    except (KeyError, TypeError, ValueError):
        return {"problem": say("source_lost", language)}
    if all(document.id != doc_id for document in member.documents()):
        return newer_version(member, doc_id, page, str(asked.get("quote", "")), language) or {
            "problem": say("source_removed", language),
            "removed": True,
        }
    assistant = member.assistant
    document = assistant.corpus.read_document(doc_id)
    quote = document.text[start:end]
    if document.kind not in SHEETED:
        return _passage(document.text, start, end)
    if not 1 <= page <= len(document.pages):
        return {"problem": say("source_lost", language)}
    try:
        sheet = _sheet(assistant.corpus.file(doc_id), page, quote)
    except IngestError as error:
        problem = tell(error)
        return {"problem": problem.message if problem else error.message}
    label = document.pages[page - 1].label
    return {
        "image": "data:image/png;base64," + base64.b64encode(sheet.png).decode("ascii"),
        "aspect": f"{sheet.width_px} / {sheet.height_px}",
        "boxes": [[box.left, box.top, box.width, box.height] for box in sheet.boxes],
        "where": sheet_of(page, label, len(document.pages), language),
        "pages": len(document.pages),
    }


@lru_cache(maxsize=48)
def _sheet(path: Path, page: int, quote: str) -> Sheet:
    from ingest.render import render_sheet

    return render_sheet(path, page, quote)


def _passage(text: str, start: int, end: int) -> dict[str, Any]:
    """The quote in its surroundings, which begin and end at lines where there are any near."""
    first = max(0, start - AROUND_CHARACTERS)
    last = min(len(text), end + AROUND_CHARACTERS)
    if first > 0:
        line = text.find("\n", first, start)
        first = line + 1 if line >= 0 else first
    if last < len(text):
        line = text.rfind("\n", end, last)
        last = line if line >= 0 else last
    return {
        "before": ("… " if first > 0 else "") + text[first:start].replace("\f", "\n").lstrip("\n"),
        "quote": text[start:end].replace("\f", "\n"),
        "after": text[end:last].replace("\f", "\n").rstrip() + (" …" if last < len(text) else ""),
    }
