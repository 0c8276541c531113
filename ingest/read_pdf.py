"""Decides what a PDF says: its words by PDFium, its structure and what was filled in by pypdf.

What PDFium can read counts; where it reads badly, pypdf is asked as well. Where only pypdf fails, the structure is
missing and a warning says so.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence

from ingest.coverage import UNSEEN_ADVICE, pages_words
from ingest.document import Document, IngestError, Origin, Page
from ingest.pdf_marks import Marks, read_marks, with_marks
from ingest.pdf_second import better_texts
from ingest.pdf_sheets import Sheet, cleaned, read_sheets
from ingest.pdf_structure import Structure, read_structure
from ingest.quality import BADLY_EXTRACTED_SHARE, badness
from ingest.title import one_line, title_of


def read_pdf(
    data: bytes,
    document_id: str,
    name: str,
    max_pages: int,
    page_done: Callable[[int, int], None],
    skipped: frozenset[int],
) -> Document:
    """Reads a PDF; a scan gives pages without text, and so do pages (counted from 1) that are `skipped`.

    Raises:
        IngestError: `password_required`, `unsupported_encryption`, `corrupt` or `too_large`.
    """
    sheets = read_sheets(data, name, max_pages, page_done, skipped)
    texts = [sheet.text for sheet in sheets]
    closed = [number for number, sheet in enumerate(sheets, 1) if not sheet.is_read]
    for number, text in better_texts(data, texts, closed).items():
        texts[number - 1] = cleaned(text)
    if not any(sheet.is_read for sheet in sheets) and not any(text.strip() for text in texts):
        raise IngestError("corrupt", f"None of the pages of {name} can be opened: get it again from its source.")
    structure = read_structure(io.BytesIO(data), texts)
    is_blank = not any(sheet.has_picture for sheet in sheets) and not any(text.strip() for text in texts)
    if structure.encrypted and is_blank:
        # Opened, yet blank throughout: what the pages hold was not deciphered.
        raise IngestError(
            "unsupported_encryption",
            f"{name} is encrypted by a method that can't be read: save it without encryption and add it again.",
        )
    origins = [_origin(text, sheet) for text, sheet in zip(texts, sheets, strict=True)]
    marks = read_marks(data, len(texts))
    for number, lines in marks.lines.items():
        texts[number - 1] = with_marks(texts[number - 1], lines)
    labels = structure.labels or (None,) * len(texts)
    pages = tuple(
        Page(number, text, label, origin)
        for number, (text, label, origin) in enumerate(zip(texts, labels, origins, strict=True), 1)
    )
    return Document(
        document_id,
        _title(structure, name),
        "pdf",
        pages,
        structure.headings(tuple(texts)),
        tuple(_warnings(pages, sheets, structure, marks)),
    )


def _origin(text: str, sheet: Sheet) -> Origin:
    if text.strip():
        return "doubtful" if badness(text) > BADLY_EXTRACTED_SHARE else "text"
    if not sheet.is_read:
        return "unread"
    return "picture" if sheet.is_drawn else "text"


def _warnings(pages: Sequence[Page], sheets: Sequence[Sheet], structure: Structure, marks: Marks) -> Iterator[str]:
    if unread := [page.number for page in pages if page.origin == "unread"]:
        yield f"{pages_words(unread)} could not be opened: the file is damaged."
    if crossing := [number for number, sheet in enumerate(sheets, 1) if sheet.is_crossing]:
        verb = "has" if len(crossing) == 1 else "have"
        yield (
            f"{pages_words(crossing)} {verb} words side by side that the file gives row by row (columns, or a table): "
            "check on the page what belongs together."
        )
    if unseen := [number for number, sheet in enumerate(sheets, 1) if sheet.has_unseen]:
        verb = "holds" if len(unseen) == 1 else "hold"
        yield f"{pages_words(unseen)} {verb} words that can't be seen (white, tiny or not painted): {UNSEEN_ADVICE}."
    if structure.failure:
        yield f"Page labels and outline could not be read ({structure.failure})."
    if marks.unread:
        yield f"Form values and notes could not be read: {pages_words(list(marks.unread))}."


def _title(structure: Structure, name: str) -> str:
    title = one_line(structure.title or "")
    # Word processors leave "Microsoft Word - draft.doc" or "untitled" as the title.
    if len(title) < 4 or re.search(r"^(microsoft word|untitled|unknown)|\.(docx?|tex|dvi|indd|pdf|ps)$", title, re.I):
        return title_of(name)
    return title_of(name, title)
