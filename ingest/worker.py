"""Decides what the reading process does: limit its own memory, read one file, say the result in one line of JSON.

usage: python -m ingest.worker FILE NAME MAX_PAGES MAX_CHARACTERS MAX_MEMORY_BYTES [SKIPPED_PAGE...]
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ingest.confine import confine
from ingest.document import Document, IngestError
from ingest.sniff import kind_of
from ingest.wire import document_to_wire


def main(
    path: Path, name: str, max_pages: int, max_characters: int, max_memory_bytes: int, skipped: frozenset[int]
) -> None:
    """Reads `path` and prints progress lines, then `{"document": ...}` or `{"error": code, "message": sentence}`."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    confine(max_memory_bytes)
    try:
        data = path.read_bytes()
        document = read_bytes(data, name, max_pages, lambda done, total: _say({"page": done, "of": total}), skipped)
        _check_length(document, name, max_characters)
    except IngestError as error:
        _say({"error": error.code, "message": error.message})
    except (MemoryError, RecursionError):
        _say(
            {
                "error": "too_complex",
                "message": f"{name} is nested too deep or unpacks to too much: print it to a new PDF, or leave it out.",
            }
        )
    except OSError as error:
        _say({"error": "not_found", "message": f"{name} can't be opened ({error.strerror}): check its rights."})
    else:
        _say({"document": document_to_wire(document)})


def _check_length(document: Document, name: str, max_characters: int) -> None:
    """Who asked holds the text too, and keeps, splits and embeds it."""
    if (length := sum(len(page.text) for page in document.pages)) > max_characters:
        raise IngestError(
            "too_large",
            f"{name} holds {length:,} characters of text, the limit is {max_characters:,}: split the file.",
        )


def read_bytes(
    data: bytes,
    name: str,
    max_pages: int,
    page_done: Callable[[int, int], None],
    skipped: frozenset[int] = frozenset(),
) -> Document:
    """Reads a file's bytes by the reader that its content and name ask for.

    Args:
        skipped: Pages of a PDF (counted from 1) that an earlier process did not survive.

    Raises:
        IngestError: Where it can't be read.
    """
    document_id = hashlib.sha256(data).hexdigest()[:16]
    kind = kind_of(data, name)
    match kind:
        case "pdf":
            from ingest.read_pdf import read_pdf

            return read_pdf(data, document_id, name, max_pages, page_done, skipped)
        case "docx":
            from ingest.read_docx import read_docx

            return read_docx(data, document_id, name)
        case "xlsx":
            from ingest.read_sheets import read_xlsx

            return read_xlsx(data, document_id, name, page_done)
        case "csv":
            from ingest.read_sheets import read_csv

            return read_csv(data, document_id, name)
        case "pptx":
            from ingest.read_pptx import read_pptx

            return read_pptx(data, document_id, name, max_pages, page_done)
        case "epub":
            from ingest.read_epub import read_epub

            return read_epub(data, document_id, name, max_pages, page_done)
        case "picture":
            from ingest.read_picture import read_picture

            return read_picture(data, document_id, name, max_pages, page_done)
        case "html":
            from ingest.read_html import read_html

            return read_html(data, document_id, name)
        case "eml":
            from ingest.read_eml import read_eml

            return read_eml(data, document_id, name)
        case "txt" | "md":
            from ingest.read_text import read_text

            return read_text(data, document_id, name, kind, max_pages)


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    pages, characters, memory_bytes, *left_out = map(int, sys.argv[3:])
    main(Path(sys.argv[1]), sys.argv[2], pages, characters, memory_bytes, frozenset(left_out))
