"""Decides what was filled in or noted on a PDF's pages beside their print: form values and annotations, by pypdf."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ingest.patience import OutOfTime, within
from ingest.pdf_failures import BAD_DATA

_CPU_SECONDS = 5.0
_MOST_MARKS_A_PAGE = 2_000
_MOST_PARENTS = 20
_MOST_CHARACTERS = 20_000
_NOTES = frozenset({"/FreeText", "/Text", "/Highlight", "/Underline", "/StrikeOut", "/Squiggly", "/Caret", "/Stamp"})


@dataclass(frozen=True)
class Marks:
    """Lines by page (counted from 1) in the file's order, and the pages whose marks could not be read."""

    lines: dict[int, tuple[str, ...]]
    unread: tuple[int, ...] = ()


def read_marks(data: bytes, num_pages: int) -> Marks:
    """Reads what pypdf can, in a few seconds; never raises for a bad file."""
    import pypdf
    from pypdf.errors import DependencyError, PyPdfError

    lines: dict[int, tuple[str, ...]] = {}
    unread: list[int] = []
    number = 1
    if b"/Annots" not in data and b"/ObjStm" not in data:
        return Marks(lines)
    try:
        with within(_CPU_SECONDS):
            reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
            if reader.is_encrypted and not reader.decrypt(""):
                return Marks(lines)
            for number in range(1, min(num_pages, len(reader.pages)) + 1):
                try:
                    found = tuple(dict.fromkeys(_of_page(reader.pages[number - 1])))
                except (PyPdfError, *BAD_DATA):
                    unread.append(number)
                    continue
                if found:
                    lines[number] = found
    except OutOfTime:
        unread += range(number, num_pages + 1)
    except (PyPdfError, DependencyError, NotImplementedError, OSError, MemoryError, *BAD_DATA):
        # Not even its pages can be listed; that its structure is unread is told anyway.
        pass
    return Marks(lines, tuple(unread))


def _of_page(page: Any) -> Iterator[str]:
    marks = page.get("/Annots")
    marks = marks.get_object() if marks is not None else None
    for mark in islice(marks or (), _MOST_MARKS_A_PAGE):
        mark = mark.get_object()
        text = _plain(_filled(mark) if mark.get("/Subtype") == "/Widget" else _noted(mark))
        if text:
            yield text


def _filled(widget: Any) -> str:
    """ "name: value" of a text or choice field; a field's parts inherit from their parents."""
    name, value, kind = _inherited(widget, "/T"), _inherited(widget, "/V"), _inherited(widget, "/FT")
    if value is None or kind not in ("/Tx", "/Ch"):
        return ""
    values = value if isinstance(value, list) else [value]
    text = ", ".join(_text(one) for one in values)
    return f"{name}: {text}" if name and text.strip() else text


def _inherited(field: Any, key: str) -> Any:
    for _ in range(_MOST_PARENTS):
        if key in field:
            return field[key].get_object() if hasattr(field[key], "get_object") else field[key]
        if "/Parent" not in field:
            return None
        field = field["/Parent"].get_object()
    return None


def _noted(mark: Any) -> str:
    return _text(mark.get("/Contents", "")) if mark.get("/Subtype") in _NOTES else ""


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain(text: str) -> str:
    return " ".join(text.replace("\0", "").split())[:_MOST_CHARACTERS]


def with_marks(text: str, marks: tuple[str, ...]) -> str:
    """The page's words with those marks below that it does not print anyway."""
    printed = "".join(text.split())
    new = [mark for mark in marks if "".join(mark.partition(": ")[2].split() or mark.split()) not in printed]
    return "\n\n".join(filter(None, [text.rstrip("\n"), "\n".join(new)])) if new else text
