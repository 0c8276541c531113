"""Decides what text recognition looks at: a page of a PDF as PDFium draws it, or a page of a picture file as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ingest.pictures import is_pdf, open_picture, upright

LONGEST_SIDE_PX = 1_600
_LEAST_SIDE_PX = 8
_MOST_SCALE = 300 / 72

Drawn = Callable[[int], Any]
"""Gives a page (counted from 1) as an array of shape (height, width, 3), None where it can't be drawn."""


def drawn_pages(path: Path) -> Drawn:
    """Opens a file that was read before; what its bytes are decides how its pages are drawn."""
    return _of_pdf(path) if is_pdf(path) else _of_picture(path)


def _of_pdf(path: Path) -> Drawn:
    import pypdfium2

    document = pypdfium2.PdfDocument(path)

    def drawn(number: int) -> Any:
        try:
            page = document[number - 1]
            width, height = page.get_size()
            scale = min(_MOST_SCALE, LONGEST_SIDE_PX / max(width, height, 1.0))
            picture = page.render(scale=scale, may_draw_forms=False).to_numpy()
            page.close()
        except (pypdfium2.PdfiumError, ValueError):
            return None
        return picture[:, :, :3] if min(picture.shape[:2]) >= _LEAST_SIDE_PX else None

    return drawn


def _of_picture(path: Path) -> Drawn:
    import numpy as np

    def drawn(number: int) -> Any:
        try:
            # Opened anew for each page: what it was decoded to is given back before recognition needs the memory.
            with open_picture(path) as source:
                page = upright(source, number, (LONGEST_SIDE_PX, LONGEST_SIDE_PX))
        except (OSError, ValueError, SyntaxError, EOFError, TypeError, KeyError):
            return None
        return np.asarray(page)[:, :, ::-1] if min(page.size) >= _LEAST_SIDE_PX else None

    return drawn
