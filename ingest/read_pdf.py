"""Decides what a PDF says: its words by PDFium, its structure and what was filled in by pypdf.

What PDFium can read counts. Where only pypdf fails, the structure is missing and a warning says so.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable
from typing import Any

from ingest.coverage import pages_words
from ingest.document import Document, IngestError, Origin, Page
from ingest.pdf_marks import read_marks, with_marks
from ingest.pdf_second import better_texts
from ingest.pdf_structure import Structure, read_structure
from ingest.quality import BADLY_EXTRACTED_SHARE, badness
from ingest.reading_order import Line, crosses_columns
from ingest.title import one_line, title_of

# PDFium's error codes (fpdfview.h).
_FORMAT, _PASSWORD, _SECURITY = 3, 4, 5
_MOST_OBJECTS = 1_000
_LEAST_OUTLINES = 20
_MOST_RECTANGLES = 800


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
        IngestError: `password_required`, `unsupported_encryption`, `corrupt`, `too_large` or `garbled_text`.
    """
    texts, drawn, has_pictures, warnings = _page_texts(data, name, max_pages, page_done, skipped)
    structure = read_structure(io.BytesIO(data), texts)
    if structure.encrypted and not has_pictures and not any(text.strip() for text in texts):
        # Opened, yet blank throughout: what the pages hold was not deciphered.
        raise IngestError(
            "unsupported_encryption",
            f"{name} is encrypted by a method that can't be read: save it without encryption and add it again.",
        )
    if structure.failure:
        warnings.append(f"Page labels and outline could not be read ({structure.failure}).")
    labels = structure.labels or (None,) * len(texts)
    origins = [_origin(text, number in drawn) for number, text in enumerate(texts, 1)]
    marks = read_marks(data, len(texts))
    for number, lines in marks.lines.items():
        texts[number - 1] = with_marks(texts[number - 1], lines)
    if marks.unread:
        warnings.append(f"Form values and notes could not be read: {pages_words(list(marks.unread))}.")
    pages = tuple(
        Page(number, text, label, origin)
        for number, (text, label, origin) in enumerate(zip(texts, labels, origins, strict=True), 1)
    )
    return Document(
        document_id, _title(structure, name), "pdf", pages, structure.headings(tuple(texts)), tuple(warnings)
    )


def _page_texts(
    data: bytes, name: str, max_pages: int, page_done: Callable[[int, int], None], skipped: frozenset[int]
) -> tuple[list[str], set[int], bool, list[str]]:
    """The pages' words, which pages without words show something, whether any of them shows a picture, and warnings."""
    import pypdfium2
    import pypdfium2.raw

    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise _translated(getattr(error, "err_code", None), name) from error
    num_pages = len(pdf)
    if num_pages == 0:
        raise IngestError("corrupt", f"{name} is a PDF without pages: get it again from its source.")
    if num_pages > max_pages:
        raise IngestError("too_large", f"{name} has {num_pages:,} pages, the limit is {max_pages:,}: split the file.")
    texts: list[str] = []
    unreadable: list[int] = []
    crossing: list[int] = []
    drawn: set[int] = set()
    has_pictures = False
    page_done(0, num_pages)
    for number in range(1, num_pages + 1):
        if number in skipped:
            texts.append("")
            unreadable.append(number)
            page_done(number, num_pages)
            continue
        try:
            page = pdf[number - 1]
            words = page.get_textpage()
            texts.append(cleaned(words.get_text_range()))
            if crosses_columns(_lines(words)):
                crossing.append(number)
            words.close()
            if not texts[-1].strip():
                kinds = [shown.type for shown in itertools.islice(page.get_objects(max_depth=3), _MOST_OBJECTS)]
                is_picture = pypdfium2.raw.FPDF_PAGEOBJ_IMAGE in kinds
                has_pictures |= is_picture
                # Letters drawn as outlines are many; a rule or a frame on an empty page is few.
                if is_picture or len(kinds) >= _LEAST_OUTLINES:
                    drawn.add(number)
            page.close()
        except pypdfium2.PdfiumError:
            texts.append("")
            unreadable.append(number)
        page_done(number, num_pages)
    for number, text in better_texts(data, texts, unreadable).items():
        texts[number - 1] = cleaned(text)
    unreadable = [number for number in unreadable if not texts[number - 1].strip()]
    if len(unreadable) == num_pages:
        raise IngestError("corrupt", f"None of the pages of {name} can be opened: get it again from its source.")
    warnings = [f"{pages_words(unreadable)} could not be opened: the file is damaged."] if unreadable else []
    if crossing:
        verb = "has" if len(crossing) == 1 else "have"
        warnings.append(
            f"{pages_words(crossing)} {verb} words side by side that the file gives row by row (columns, or a table): "
            "check on the page what belongs together."
        )
    return texts, drawn, has_pictures, warnings


def _lines(words: Any) -> list[Line]:
    """Where the words stand, in the file's order; a page may have very many."""
    corners = (words.get_rect(index) for index in range(min(words.count_rects(), _MOST_RECTANGLES)))
    return [
        Line(left, -top, right, -bottom, "") for left, bottom, right, top in corners if right > left and top > bottom
    ]


def _origin(text: str, is_drawn: bool) -> Origin:
    if not text.strip():
        return "picture" if is_drawn else "text"
    return "doubtful" if badness(text) > BADLY_EXTRACTED_SHARE else "text"


def _translated(pdfium_code: int | None, name: str) -> IngestError:
    if pdfium_code == _PASSWORD:
        return IngestError(
            "password_required", f"{name} opens only with a password: save a copy without one and add that."
        )
    if pdfium_code == _SECURITY:
        return IngestError(
            "unsupported_encryption",
            f"{name} is encrypted by a method that can't be read: save it without encryption and add it again.",
        )
    return IngestError("corrupt", f"{name} is damaged and can't be opened as a PDF: get it again from its source.")


def cleaned(raw: str) -> str:
    """PDFium's page text as we keep it: one kind of line end, its line-end hyphen mark as a hyphen.

    PDFium joins a word that a line end divides and puts U+FFFE (U+0002 in older builds) where the hyphen was. NUL stays
    as U+FFFD, so that a badly extracted page shows and is flagged.
    """
    text = raw.replace("\r\n", "\n").replace("\r", "\n").replace("\ufffe", "-").replace("\x02", "-")
    return text.replace("\0", "\ufffd").replace("\f", "\n").replace("\ufeff", "")


def _title(structure: Structure, name: str) -> str:
    title = one_line(structure.title or "")
    # Word processors leave "Microsoft Word - draft.doc" or "untitled" as the title.
    if len(title) < 4 or re.search(r"^(microsoft word|untitled|unknown)|\.(docx?|tex|dvi|indd|pdf|ps)$", title, re.I):
        return title_of(name)
    return title_of(name, title)
