"""Small PDFs for tests, made with fpdf2 and pypdf."""

from __future__ import annotations

import io
from collections.abc import Sequence

from fpdf import FPDF
from pypdf import PdfReader, PdfWriter


def pdf(pages: Sequence[str], *, outline: Sequence[tuple[str, int, int]] = (), title: str = "") -> bytes:
    """One sheet a text. `outline`: (title, level from 0, sheet from 1)."""
    made = FPDF()
    made.set_font("Helvetica", size=11)
    if title:
        made.set_title(title)
    for number, text in enumerate(pages, 1):
        made.add_page()
        for entry_title, level, sheet in outline:
            if sheet == number:
                made.start_section(entry_title, level)
        if text:
            made.multi_cell(0, 6, text)
    return bytes(made.output())


def rewritten(data: bytes, change) -> bytes:
    """`data` after `change(writer)`."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    change(writer)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def encrypted(data: bytes, *, user: str, owner: str) -> bytes:
    return rewritten(data, lambda writer: writer.encrypt(user, owner, algorithm="RC4-128"))


def labelled(data: bytes, prefix: str | None = None) -> bytes:
    """Sheets 1 and 2 are printed i and ii, sheet 3 is printed 1."""

    def change(writer: PdfWriter) -> None:
        writer.set_page_label(0, 1, style="/r")
        writer.set_page_label(2, len(writer.pages) - 1, style="/D", prefix=prefix)

    return rewritten(data, change)
