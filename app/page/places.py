"""Decides how a sheet of a document is named: as its label is printed, and as a viewer counts."""

from __future__ import annotations

from app.page.words import say
from app.words import Language, page_words


def sheet_words(page: int, label: str | None, num_pages: int | None, language: Language) -> str:
    """The printed label first where it differs, as people cite; the sheet behind it, as a viewer counts."""
    if language == "en":
        return page_words(page, label, num_pages)
    if label is None or label == str(page):
        return f"第 {page} 页"
    return f"第 {label} 页（第 {page} 张" + (f"，共 {num_pages} 张）" if num_pages else "）")


def sheet_of(page: int, label: str | None, num_pages: int, language: Language) -> str:
    """The line between the arrows: "p. 7 of 14", or "p. iv, sheet 4 of 16"."""
    named = sheet_words(page, label, num_pages, language)
    return say("page_of", language, where=named, pages=num_pages) if label is None or label == str(page) else named
