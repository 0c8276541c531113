"""Decides what text recognition looks at: a page of a PDF as PDFium draws it, or a page of a picture file as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

LONGEST_SIDE_PX = 1_600
_LEAST_SIDE_PX = 8
_MOST_SCALE = 300 / 72
_PDF_HEADER_WITHIN = 1024
_ORIENTATION = 0x0112

Drawn = Callable[[int], Any]
"""Gives a page (counted from 1) as an array of shape (height, width, 3), None where it can't be drawn."""


def drawn_pages(path: Path) -> Drawn:
    """Opens a file that was read before; what its bytes are decides how its pages are drawn."""
    with path.open("rb") as file:
        is_pdf = b"%PDF-" in file.read(_PDF_HEADER_WITHIN)
    return _of_pdf(path) if is_pdf else _of_picture(path)


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
    from PIL import Image, ImageOps

    from ingest.read_picture import FORMATS

    Image.MAX_IMAGE_PIXELS = None  # its size was checked when it was read
    source = Image.open(path, formats=FORMATS)

    def drawn(number: int) -> Any:
        try:
            source.seek(number - 1)
            # A JPEG is decoded at a fraction of its size where that is enough.
            source.draft("RGB", (LONGEST_SIDE_PX, LONGEST_SIDE_PX))
            page = _on_white(_smaller(source))
            page.thumbnail((LONGEST_SIDE_PX, LONGEST_SIDE_PX))
            # A camera notes how it was held instead of turning what it saw.
            page.getexif()[_ORIENTATION] = source.getexif().get(_ORIENTATION, 1)
            page = ImageOps.exif_transpose(page)
        except (OSError, ValueError, SyntaxError, EOFError, TypeError, KeyError):
            return None
        return np.asarray(page)[:, :, ::-1] if min(page.size) >= _LEAST_SIDE_PX else None

    return drawn


def _smaller(picture: Any) -> Any:
    """A whole fraction of its size, not below what is needed: a large picture is not copied as it is."""
    factor = max(picture.size) // LONGEST_SIDE_PX
    return picture.reduce(factor) if factor > 1 and picture.mode in ("L", "LA", "RGB", "RGBA", "CMYK") else picture


def _on_white(picture: Any) -> Any:
    """In red, green and blue; what can be seen through lies on white paper."""
    from PIL import Image

    if picture.mode in ("I;16", "I;16B", "I", "F"):
        low, high = picture.getextrema()
        scale = 255 / max(1e-9, high - low)
        return picture.convert("F").point(lambda value: value * scale - low * scale).convert("RGB")
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture.convert("RGB")
    seen = picture.convert("RGBA")
    paper = Image.new("RGBA", seen.size, "white")
    paper.alpha_composite(seen)
    return paper.convert("RGB")
