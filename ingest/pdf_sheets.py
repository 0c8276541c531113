"""Decides what PDFium reads of each page of a PDF: its words, and whether a page without words shows something."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ingest.document import IngestError
from ingest.pdf_unseen import has_unseen_words
from ingest.reading_order import Line, crosses_columns

# PDFium's error codes (fpdfview.h).
_PASSWORD, _SECURITY = 4, 5
_MOST_OBJECTS = 1_000
_LEAST_OUTLINES = 20
_MOST_RECTANGLES = 800


@dataclass(frozen=True)
class Sheet:
    """A page as PDFium reads it.

    Attributes:
        is_read: False where it could not be opened.
        is_drawn: It shows something and prints no words.
        has_picture: What it shows is a picture.
        is_crossing: Words that stand side by side come row by row, as where columns are read straight across.
        has_unseen: It holds words that its reader does not see.
    """

    text: str = ""
    is_read: bool = True
    is_drawn: bool = False
    has_picture: bool = False
    is_crossing: bool = False
    has_unseen: bool = False


def read_sheets(
    data: bytes, name: str, max_pages: int, page_done: Callable[[int, int], None], skipped: frozenset[int]
) -> list[Sheet]:
    """All pages in order; those (counted from 1) that are `skipped` are not opened.

    Raises:
        IngestError: `password_required`, `unsupported_encryption`, `corrupt` or `too_large`.
    """
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise _translated(getattr(error, "err_code", None), name) from error
    num_pages = len(pdf)
    if num_pages == 0:
        raise IngestError("corrupt", f"{name} is a PDF without pages: get it again from its source.")
    if num_pages > max_pages:
        raise IngestError("too_large", f"{name} has {num_pages:,} pages, the limit is {max_pages:,}: split the file.")
    sheets: list[Sheet] = []
    page_done(0, num_pages)
    for number in range(1, num_pages + 1):
        sheets.append(Sheet(is_read=False) if number in skipped else _sheet(pdf, number - 1))
        page_done(number, num_pages)
    return sheets


def _sheet(pdf: Any, index: int) -> Sheet:
    import pypdfium2

    try:
        page = pdf[index]
        words = page.get_textpage()
        text = cleaned(words.get_text_range())
    except pypdfium2.PdfiumError:
        return Sheet(is_read=False)
    try:
        if text.strip():
            return Sheet(text, is_crossing=crosses_columns(_lines(words)), has_unseen=has_unseen_words(page, words))
        return _wordless(page, text)
    except pypdfium2.PdfiumError:
        return Sheet(text)
    finally:
        words.close()
        page.close()


def _wordless(page: Any, text: str) -> Sheet:
    import pypdfium2.raw

    kinds = [shown.type for shown in itertools.islice(page.get_objects(max_depth=3), _MOST_OBJECTS)]
    has_picture = pypdfium2.raw.FPDF_PAGEOBJ_IMAGE in kinds
    # Letters drawn as outlines are many; a rule or a frame on an empty page is few.
    return Sheet(text, is_drawn=has_picture or len(kinds) >= _LEAST_OUTLINES, has_picture=has_picture)


def _lines(words: Any) -> list[Line]:
    """Where the words stand, in the file's order; a page may have very many."""
    corners = (words.get_rect(index) for index in range(min(words.count_rects(), _MOST_RECTANGLES)))
    return [
        Line(left, -top, right, -bottom, "") for left, bottom, right, top in corners if right > left and top > bottom
    ]


def cleaned(raw: str) -> str:
    """PDFium's page text as we keep it: one kind of line end, its line-end hyphen mark as a hyphen.

    PDFium joins a word that a line end divides and puts U+FFFE (U+0002 in older builds) where the hyphen was. NUL stays
    as U+FFFD, so that a badly extracted page shows and is flagged.
    """
    text = raw.replace("\r\n", "\n").replace("\r", "\n").replace("\ufffe", "-").replace("\x02", "-")
    return text.replace("\0", "\ufffd").replace("\f", "\n").replace("\ufeff", "")


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
