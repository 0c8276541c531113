"""Decides how words are recognised in the pictures of pages: PDFium draws, RapidOCR reads with its packaged models.

usage: python -m ingest.ocr_worker FILE MAX_MEMORY_BYTES PAGE...
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ingest.confine import confine
from ingest.reading_order import Line, ordered_text

LONGEST_SIDE_PX = 1_600
_MOST_SCALE = 300 / 72
_MOST_THREADS = 4


def main(path: Path, max_memory_bytes: int, pages: list[int]) -> None:
    """Prints `{"begun": page}` and `{"page": page, "text": words}` for each page (counted from 1)."""
    confine(max_memory_bytes)
    import pypdfium2

    # What the packages print would stand between our lines.
    said = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(said, "w", encoding="utf-8") as out:
        recogniser = _recogniser()
        document = pypdfium2.PdfDocument(path)
        for number in pages:
            _say(out, {"begun": number})
            _say(out, {"page": number, "text": ordered_text(_lines(recogniser, document, number))})


def _recogniser() -> Any:
    from rapidocr import RapidOCR

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "EngineConfig.onnxruntime.intra_op_num_threads": min(_MOST_THREADS, cores),
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            # One line at a time: lines differ in length, and a batch is padded to its longest, in time and memory.
            "Rec.rec_batch_num": 1,
        }
    )


def _lines(recogniser: Any, document: Any, number: int) -> list[Line]:
    import pypdfium2

    try:
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(_MOST_SCALE, LONGEST_SIDE_PX / max(width, height, 1.0))
        picture = page.render(scale=scale, may_draw_forms=False).to_numpy()
        page.close()
    except (pypdfium2.PdfiumError, ValueError):
        return []
    if min(picture.shape[:2]) < 8:
        return []
    found = recogniser(picture[:, :, :3])
    if found.boxes is None or found.txts is None:
        return []
    lines = []
    for box, text in zip(found.boxes, found.txts, strict=True):
        across, down = [float(point[0]) for point in box], [float(point[1]) for point in box]
        if words := " ".join(text.split()):
            lines.append(Line(min(across), min(down), max(across), max(down), words))
    return lines


def _say(out: Any, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [int(number) for number in sys.argv[3:]])
