"""Little Office files, books and bombs, made here and now."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any


def docx(build: Any) -> bytes:
    """A Word file that `build` has filled."""
    import docx as word

    document = word.Document()
    build(document)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def xlsx(sheets: Mapping[str, list[list[Any]]], build: Any = None) -> bytes:
    """A workbook of sheets by their names; `build` may change it further."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    if build:
        build(book)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def pptx(build: Any) -> bytes:
    """A presentation that `build` has filled."""
    import pptx as point

    show = point.Presentation()
    build(show)
    out = io.BytesIO()
    show.save(out)
    return out.getvalue()


def zipped(parts: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in parts.items():
            target.writestr(name, data)
    return out.getvalue()


def with_part(package: bytes, name: str, data: bytes) -> bytes:
    """The same package with one part in place of the old one of that name."""
    with zipfile.ZipFile(io.BytesIO(package)) as source:
        parts = {one: source.read(one) for one in source.namelist()}
    return zipped(parts | {name: data})


def part(package: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as source:
        return source.read(name)


def epub(chapters: Mapping[str, str], **more: bytes) -> bytes:
    """A book whose chapters are XHTML bodies by file name, in that order."""
    items = "".join(
        f'<item id="c{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(chapters)
    )
    order = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata><dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"The Lighthouse</dc:title></metadata><manifest>{items}</manifest><spine>{order}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book/p.opf"/></rootfiles></container>'
    )
    pages = {
        f"book/{name}": f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>'.encode()
        for name, body in chapters.items()
    }
    fixed = {"mimetype": b"application/epub+zip", "META-INF/container.xml": container.encode()}
    return zipped(fixed | {"book/p.opf": package.encode()} | pages | more)
