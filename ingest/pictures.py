"""Decides how a picture file becomes one upright page in red, green and blue, no larger than is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FORMATS = ("PNG", "JPEG", "TIFF")
_PDF_HEADER_WITHIN = 1024
_ORIENTATION = 0x0112


def is_pdf(path: Path) -> bool:
    """Whether a file that was read before is a PDF; else, where its pages can be looked at, it is a picture."""
    with path.open("rb") as file:
        return b"%PDF-" in file.read(_PDF_HEADER_WITHIN)


def open_picture(source: Any) -> Any:
    """Opens a path or a file; nothing is decoded yet. `ingest.read_picture` has looked at its size, or will."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # our limit has a sentence
    return Image.open(source, formats=FORMATS)


def upright(source: Any, number: int, most_px: tuple[int, int]) -> Any:
    """Page `number` (counted from 1) within `most_px` (width, height); raises what Pillow raises on bad bytes."""
    from PIL import ImageOps

    source.seek(number - 1)
    # A JPEG is decoded at a fraction of its size where that is enough.
    source.draft("RGB", most_px)
    page = _on_white(_smaller(source, max(most_px)))
    page.thumbnail(most_px)
    # A camera notes how it was held instead of turning what it saw.
    page.getexif()[_ORIENTATION] = source.getexif().get(_ORIENTATION, 1)
    return ImageOps.exif_transpose(page)


def _smaller(picture: Any, longest_px: int) -> Any:
    """A whole fraction of its size, not below what is needed: a large picture is not copied as it is."""
    factor = max(picture.size) // longest_px
    return picture.reduce(factor) if factor > 1 and picture.mode in ("L", "LA", "RGB", "RGBA", "CMYK") else picture


def _on_white(picture: Any) -> Any:
    """What can be seen through lies on white paper."""
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
