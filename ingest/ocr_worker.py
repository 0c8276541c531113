"""Decides how words are recognised in the pictures of pages: RapidOCR reads them with its packaged models.

usage: python -m ingest.ocr_worker FILE MAX_MEMORY_BYTES PAGE...
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ingest.confine import confine
from ingest.ocr_pictures import drawn_pages
from ingest.reading_order import Line, ordered_text

_MOST_THREADS = 4


def main(path: Path, max_memory_bytes: int, pages: list[int]) -> None:
    """Prints `{"begun": page}` and `{"page": page, "text": words}` for each page (counted from 1)."""
    confine(max_memory_bytes)
    # What the packages print would stand between our lines.
    said = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(said, "w", encoding="utf-8") as out:
        recogniser = _recogniser()
        drawn = drawn_pages(path)
        for number in pages:
            _say(out, {"begun": number})
            picture = drawn(number)
            _say(out, {"page": number, "text": "" if picture is None else ordered_text(_lines(recogniser, picture))})


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


def _lines(recogniser: Any, picture: Any) -> list[Line]:
    found = recogniser(picture)
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
