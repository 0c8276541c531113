"""Decides which words of a PDF's page a reader can't see: white on white, too small, or not painted at all.

Such words are read like all others, and the person who brought the file is told. What lies on a picture or a coloured
field counts as seen: white on blue is a heading, and words that are not painted over a scan are its recognised text.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MOST_OBJECTS = 2_000
_DEEPEST = 3
_NEARLY_WHITE = 245
_LEAST_ALPHA = 16
_LEAST_POINTS = 2.0
_FEWEST_LETTERS = 12
_INVISIBLE = 3


@dataclass(frozen=True)
class _Box:
    left: float
    bottom: float
    right: float
    top: float

    def holds(self, other: _Box) -> bool:
        """Whether the middle of `other` lies in it."""
        across, up = (other.left + other.right) / 2, (other.bottom + other.top) / 2
        return self.left <= across <= self.right and self.bottom <= up <= self.top


def has_unseen_words(page: Any, words: Any) -> bool:
    """Whether at least a few words of the page are such.

    Args:
        page: A page of pypdfium2, and `words` its text page.
    """
    import pypdfium2.raw as pdfium

    objects = (pdfium.FPDFPage_GetObject(page, index) for index in range(pdfium.FPDFPage_CountObjects(page)))
    return _num_unseen(itertools.islice(objects, _MOST_OBJECTS), words, _DEEPEST) >= _FEWEST_LETTERS


def _num_unseen(objects: Iterator[Any], words: Any, depth: int) -> int:
    """Letters that can't be seen; what is painted first lies below what comes after it."""
    import pypdfium2.raw as pdfium

    fields: list[_Box] = []
    letters = 0
    for item in objects:
        kind = pdfium.FPDFPageObj_GetType(item)
        if kind == pdfium.FPDF_PAGEOBJ_TEXT:
            if _is_unseen(item):
                box = _box(item)
                letters += 0 if any(field.holds(box) for field in fields) else _num_letters(item, words)
        elif kind != pdfium.FPDF_PAGEOBJ_PATH or _colour(item) == "shown":
            fields.append(_box(item))
            if kind == pdfium.FPDF_PAGEOBJ_FORM and depth:
                inner = (pdfium.FPDFFormObj_GetObject(item, at) for at in range(pdfium.FPDFFormObj_CountObjects(item)))
                letters += _num_unseen(itertools.islice(inner, _MOST_OBJECTS), words, depth - 1)
    return letters


def _is_unseen(item: Any) -> bool:
    import pypdfium2.raw as pdfium

    if pdfium.FPDFTextObj_GetTextRenderMode(item) == _INVISIBLE or _colour(item) != "shown":
        return True
    size, matrix = ctypes.c_float(), pdfium.FS_MATRIX()
    known = pdfium.FPDFTextObj_GetFontSize(item, size) and pdfium.FPDFPageObj_GetMatrix(item, matrix)
    return bool(known) and abs(size.value) * max(abs(matrix.d), abs(matrix.b)) < _LEAST_POINTS


def _colour(item: Any) -> str:
    """ "white", "clear" or "shown", of what fills it."""
    import pypdfium2.raw as pdfium

    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    if not pdfium.FPDFPageObj_GetFillColor(item, red, green, blue, alpha):
        return "shown"
    if alpha.value < _LEAST_ALPHA:
        return "clear"
    return "white" if min(red.value, green.value, blue.value) >= _NEARLY_WHITE else "shown"


def _box(item: Any) -> _Box:
    import pypdfium2.raw as pdfium

    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top)
    return _Box(left.value, bottom.value, right.value, top.value)


def _num_letters(item: Any, words: Any) -> int:
    import pypdfium2.raw as pdfium

    size = pdfium.FPDFTextObj_GetText(item, words, None, 0)
    buffer = ctypes.create_string_buffer(size)
    pdfium.FPDFTextObj_GetText(item, words, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return sum(character.isalnum() for character in buffer.raw.decode("utf-16-le", "ignore"))
