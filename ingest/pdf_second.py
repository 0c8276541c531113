"""Decides which reading of a PDF's page counts where PDFium's is bad: pypdf's, if that one is clearly better."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from ingest.patience import OutOfTime, within
from ingest.pdf_failures import BAD_DATA
from ingest.quality import BADLY_EXTRACTED_SHARE, badness

_CPU_SECONDS = 5.0
_CLEARLY = 0.5


def better_texts(data: bytes, texts: Sequence[str], unreadable: Sequence[int]) -> dict[int, str]:
    """Better readings by page (counted from 1) of pages that are badly extracted, or that PDFium could not open.

    Never raises for a bad file, and ends in a few seconds.
    """
    bad = [number for number, text in enumerate(texts, 1) if badness(text) > BADLY_EXTRACTED_SHARE]
    wanted = sorted({*bad, *unreadable})
    found: dict[int, str] = {}
    if not wanted:
        return found
    import pypdf
    from pypdf.errors import PyPdfError

    try:
        with within(_CPU_SECONDS):
            reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
            if reader.is_encrypted and not reader.decrypt(""):
                return found
            for number in wanted:
                text = _text(reader, number)
                if _is_better(text, texts[number - 1]):
                    found[number] = text
    except (PyPdfError, OSError, MemoryError, NotImplementedError, OutOfTime, *BAD_DATA):
        pass
    return found


def _text(reader: Any, number: int) -> str:
    from pypdf.errors import PyPdfError

    try:
        return str(reader.pages[number - 1].extract_text())
    except (PyPdfError, NotImplementedError, *BAD_DATA):
        return ""


def _is_better(second: str, first: str) -> bool:
    """Fewer characters that mean nothing, and not for want of words."""
    if not second.strip() or badness(second) > BADLY_EXTRACTED_SHARE:
        return False
    return (badness(second) <= _CLEARLY * badness(first) and _words(second) >= _CLEARLY * _words(first)) or not first


def _words(text: str) -> int:
    return sum(map(str.isalnum, text))
