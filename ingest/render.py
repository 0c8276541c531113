"""Decides what a sheet looks like beside an answer: its picture, and where on it a quote stands.

PDFium runs in a process of its own with limits: a file can neither crash nor stall the one who asks.
usage: python -m ingest.render FILE PAGE WIDTH_PX < QUOTE
"""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.confine import confine
from ingest.document import IngestError
from ingest.pictures import is_pdf, open_picture, upright

MAX_HEIGHT_PX = 4_000
MAX_SECONDS = 30.0
MAX_MEMORY_BYTES = 2 * 1024**3

# A quote longer than this that is not found as one piece is looked for by its beginning and its end.
ANCHOR_CHARACTERS = 24


@dataclass(frozen=True)
class Box:
    """A rectangle on a sheet; all four are shares of its width or height, from its top left corner."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Sheet:
    """One rendered sheet.

    Attributes:
        png: The picture, without marks (they differ from quote to quote).
        boxes: Where the quote stands, a box a line; empty where it was not found on this sheet.
        num_pages: Sheets of the file.
    """

    png: bytes
    width_px: int
    height_px: int
    boxes: tuple[Box, ...]
    num_pages: int


def render_sheet(path: Path, page: int, quote: str = "", *, width_px: int = 1_300) -> Sheet:
    """Renders sheet `page` (counted from 1) of a PDF, and finds `quote` on it, or of a picture.

    Blocking, about half a second.

    Raises:
        IngestError: `not_found` (no such file or sheet), `corrupt`, `timed_out`, `too_complex`.
    """
    root = str(Path(__file__).resolve().parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "ingest.render", str(path), str(page), str(width_px)]
    try:
        done = subprocess.run(
            command, input=quote.encode(), capture_output=True, timeout=MAX_SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise IngestError("timed_out", f"Page {page} takes too long to draw; open the file itself.") from error
    try:
        said = json.loads(done.stdout)
    except ValueError as error:
        raise IngestError("too_complex", f"Page {page} can't be drawn; open the file itself.") from error
    if "error" in said:
        raise IngestError(said["error"], said["message"])
    return Sheet(
        png=base64.b64decode(said["png"]),
        width_px=said["width_px"],
        height_px=said["height_px"],
        boxes=tuple(Box(*box) for box in said["boxes"]),
        num_pages=said["num_pages"],
    )


def find_span(text: str, quote: str) -> tuple[int, int] | None:
    """Where `quote` stands in `text`, as characters of `text`; None where it does not.

    Letters and digits alone are compared, so that line ends, hyphens at them, ligatures and white space do not matter.
    A quote that was cut by a line of something else (a running head) spans from its beginning to its end.
    """
    letters, places = _letters(text)
    wanted, _ = _letters(quote)
    if not wanted:
        return None
    at = letters.find(wanted)
    if at >= 0:
        return places[at], _with_full_stop(text, quote, places[at + len(wanted) - 1] + 1)
    if len(wanted) < 2 * ANCHOR_CHARACTERS:
        return None
    first = letters.find(wanted[:ANCHOR_CHARACTERS])
    last = letters.find(wanted[-ANCHOR_CHARACTERS:], first + 1)
    if first < 0 or last < 0 or last - first > 2 * len(wanted):
        return None
    return places[first], _with_full_stop(text, quote, places[last + ANCHOR_CHARACTERS - 1] + 1)


def _with_full_stop(text: str, quote: str, end: int) -> int:
    """`end`, and one further where the quote and the text both go on with the same mark."""
    closing = quote.rstrip()[-1:]
    return end + 1 if not closing.isalnum() and text[end : end + 1] == closing else end


def _letters(text: str) -> tuple[str, list[int]]:
    """The folded letters and digits of `text`, and for each the index in `text` that it came from."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for folded in unicodedata.normalize("NFKC", character).casefold():
            if folded.isalnum():
                letters.append(folded)
                places.append(place)
    return "".join(letters), places


def _draw(path: Path, number: int, quote: str, width_px: int) -> dict[str, Any]:
    if not is_pdf(path):
        return _of_picture(path, number, width_px)
    import pypdfium2 as pdfium

    document = pdfium.PdfDocument(path)
    if not 1 <= number <= len(document):
        raise IngestError("not_found", f"There is no page {number}: the document has {len(document)} pages.")
    page = document[number - 1]
    width, height = page.get_size()
    scale = min(width_px / width, MAX_HEIGHT_PX / height)
    picture = page.render(scale=scale, may_draw_forms=False).to_pil().convert("RGB")
    return _said(picture, _boxes(page, quote), len(document))


def _of_picture(path: Path, number: int, width_px: int) -> dict[str, Any]:
    """Where its words stand was not kept."""
    source = open_picture(path)
    num_pages = getattr(source, "n_frames", 1)
    if not 1 <= number <= num_pages:
        raise IngestError("not_found", f"There is no page {number}: the document has {num_pages} pages.")
    return _said(upright(source, number, (width_px, MAX_HEIGHT_PX)), [], num_pages)


def _said(picture: Any, boxes: list[Box], num_pages: int) -> dict[str, Any]:
    png = io.BytesIO()
    picture.quantize(colors=128).save(png, "PNG", optimize=False)
    return {
        "png": base64.b64encode(png.getvalue()).decode("ascii"),
        "width_px": picture.width,
        "height_px": picture.height,
        "boxes": [(box.left, box.top, box.width, box.height) for box in boxes],
        "num_pages": num_pages,
    }


def _boxes(page: Any, quote: str) -> list[Box]:
    """A box a line of the quote, in shares of the sheet as it is drawn (its crop box, turned by its rotation)."""
    text_page = page.get_textpage()
    count = text_page.count_chars()
    # Character by character: `get_text_range` leaves some out, and then its indices would not be PDFium's.
    text = "".join(_character(text_page, index) for index in range(count))
    span = find_span(text, quote)
    if span is None:
        return []
    start, end = span
    left, bottom, right, top = page.get_bbox()
    turned = page.get_rotation()
    boxes = []
    for index in range(text_page.count_rects(start, end - start)):
        x0, y0, x1, y1 = text_page.get_rect(index)
        across, down = (right - left) or 1.0, (top - bottom) or 1.0
        upright = Box((x0 - left) / across, (top - y1) / down, (x1 - x0) / across, (y1 - y0) / down)
        boxes.append(_turn(_padded(upright), turned))
    return boxes


def _character(text_page: Any, index: int) -> str:
    import pypdfium2.raw as raw

    code = raw.FPDFText_GetUnicode(text_page, index)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else " "


def _turn(box: Box, degrees: int) -> Box:
    """The same box on the sheet turned clockwise."""
    if degrees == 90:
        return Box(1 - box.top - box.height, box.left, box.height, box.width)
    if degrees == 180:
        return Box(1 - box.left - box.width, 1 - box.top - box.height, box.width, box.height)
    if degrees == 270:
        return Box(box.top, 1 - box.left - box.width, box.height, box.width)
    return box


def _padded(box: Box) -> Box:
    """A little more than the ink, as a highlighter leaves it."""
    extra = box.height * 0.18
    return Box(max(0.0, box.left - 0.003), max(0.0, box.top - extra), box.width + 0.006, box.height + 2 * extra)


def main(path: Path, page: int, width_px: int, quote: str) -> None:
    """Prints one line of JSON: the sheet, or `{"error": code, "message": sentence}`."""
    confine(MAX_MEMORY_BYTES)
    said: dict[str, Any]
    try:
        if not path.is_file():
            raise IngestError("not_found", "The file is no longer there.")
        said = _draw(path, page, quote, width_px)
    except IngestError as error:
        said = {"error": error.code, "message": error.message}
    except (MemoryError, RecursionError):
        said = {"error": "too_complex", "message": f"Page {page} is too complex to draw; open the file itself."}
    except Exception:  # PDFium's own errors: the file was read once, but this page can't be drawn.
        said = {"error": "corrupt", "message": f"Page {page} can't be drawn; open the file itself."}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.stdin.buffer.read().decode())
