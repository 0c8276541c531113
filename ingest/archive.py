"""Decides whether a file made of zipped parts (Office, EPUB) may be unpacked, and which reader takes it.

The parts' sizes are told in the file's directory, before anything is unpacked; zipfile never gives more than was told.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Literal

from ingest.document import IngestError

PackageKind = Literal["docx", "xlsx", "pptx", "epub"]
_KIND_OF_FOLDER: dict[str, PackageKind] = {"word/": "docx", "xl/": "xlsx", "ppt/": "pptx", "META-INF/": "epub"}
_MAIN_PARTS = {
    "docx": re.compile(r"word/document\d*\.xml"),
    "xlsx": re.compile(r"xl/workbook\d*\.xml"),
    "pptx": re.compile(r"ppt/presentation\d*\.xml"),
    "epub": re.compile(r"META-INF/container\.xml"),
}
_SUFFIXES = {
    ".docx": "Word document",
    ".docm": "Word document",
    ".dotx": "Word document",
    ".xlsx": "Excel workbook",
    ".xlsm": "Excel workbook",
    ".pptx": "PowerPoint presentation",
    ".pptm": "PowerPoint presentation",
    ".epub": "book (EPUB)",
}
PACKAGE_SUFFIXES = frozenset(_SUFFIXES)
_MOST_PARTS = 20_000
_MOST_BYTES = 600 * 1024 * 1024
_MOST_XML_BYTES = 160 * 1024 * 1024
# Office XML shrinks by 5 to 50 times; what shrinks by more than this is blanks made to unpack.
_MOST_RATIO = 200
_HARMLESS_BYTES = 8 * 1024 * 1024
_XML = re.compile(r"\.(xml|rels|opf|ncx|xhtml|html?|vml)$", re.IGNORECASE)
_DECLARES = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def package_kind(data: bytes, name: str) -> PackageKind:
    """Says what a zip file is.

    Raises:
        IngestError: `corrupt` where the name promises a document that the bytes are not, else `unsupported_type`.
    """
    promised = _SUFFIXES.get(PurePath(name).suffix.lower())
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            names = parts.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError) as error:
        if promised:
            raise IngestError(
                "corrupt", f"{name} is damaged or cut short: get it again from its source, or save it anew."
            ) from error
        names = []
    for folder, kind in _KIND_OF_FOLDER.items():
        if any(one.startswith(folder) and _MAIN_PARTS[kind].fullmatch(one) for one in names):
            return kind
    if promised:
        raise IngestError("corrupt", f"{name} is called a {promised} but holds none: get it again from its source.")
    what = "an OpenDocument file" if "content.xml" in names else "a ZIP file"
    advice = "save it as docx or PDF" if "content.xml" in names else "unpack it and add what is in it"
    raise IngestError("unsupported_type", f"{name} is {what}, which can't be read: {advice}.")


def checked(data: bytes, name: str, *, is_office: bool) -> zipfile.ZipFile:
    """Opens the parts of a document after a look at their sizes.

    Raises:
        IngestError: `too_complex` (made to exhaust a reader), `too_large`, `password_required` or `corrupt`.
    """
    try:
        parts = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError) as error:
        raise IngestError(
            "corrupt", f"{name} is damaged or cut short: get it again from its source, or save it anew."
        ) from error
    entries = parts.infolist()
    if any(entry.flag_bits & 1 for entry in entries):
        raise IngestError("password_required", f"{name} opens only with a password: save a copy without one.")
    unpacked = sum(entry.file_size for entry in entries)
    xml = sum(entry.file_size for entry in entries if _XML.search(entry.filename))
    if len(entries) > _MOST_PARTS or (unpacked > _HARMLESS_BYTES and unpacked > _MOST_RATIO * len(data)):
        raise IngestError(
            "too_complex",
            f"{name} unpacks from {len(data) / 1e6:,.1f} MB to {unpacked / 1e6:,.0f} MB in {len(entries):,} parts, as "
            "no real document does: it is made to exhaust a reader; leave it out, or print it to PDF.",
        )
    if unpacked > _MOST_BYTES or xml > _MOST_XML_BYTES:
        raise IngestError(
            "too_large",
            f"{name} unpacks to {unpacked / 1e6:,.0f} MB, {xml / 1e6:,.0f} MB of them text: split it, or print it to "
            "PDF.",
        )
    if is_office:
        _refuse_declarations(parts, name)
    return parts


def _refuse_declarations(parts: zipfile.ZipFile, name: str) -> None:
    """Office writes no DTD; one is there to have entities unfold, or to have files and addresses opened."""
    with translated(name):
        for entry in parts.infolist():
            if _XML.search(entry.filename):
                with parts.open(entry) as part:
                    declares = _DECLARES.search(part.read(4096))
                if declares:
                    raise IngestError(
                        "too_complex",
                        f"{name} declares XML entities, as no Office program does: leave it out, or print it to PDF.",
                    )


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turns what the libraries raise on bad files into `corrupt`, or `too_complex` where their own limits were met."""
    try:
        yield
    except (IngestError, MemoryError, RecursionError):
        raise
    except Exception as error:  # on hostile bytes these libraries raise whatever their innards do
        if re.search(r"depth|huge|memory|too (?:large|long|big)", str(error), re.IGNORECASE):
            raise IngestError(
                "too_complex", f"{name} is nested too deep or holds too long a part: print it to PDF, or leave it out."
            ) from error
        raise IngestError(
            "corrupt",
            f"{name} is damaged ({type(error).__name__}): open it in the program that made it and save it anew.",
        ) from error
