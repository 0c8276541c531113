"""Decides what kind of file some bytes are: by what they hold first, by the name's ending second."""

from __future__ import annotations

import re
from pathlib import PurePath

from ingest.archive import PACKAGE_SUFFIXES, package_kind
from ingest.document import DocumentKind, IngestError
from ingest.encoding import unmarked_utf16
from ingest.read_picture import PICTURE_SUFFIXES

_PDF_HEADER_WITHIN = 1024
_MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd"})
_TEXT = frozenset({".txt", ".text", ".log", ""})
_UNICODE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")
# First bytes, what a person calls such a file, and what to do about it.
_OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (b"\xd0\xcf\x11\xe0", "an old Office file", "save it as docx, xlsx, pptx or PDF"),
    (b"{\\rtf", "an RTF file", "save it as PDF or text"),
    (b"GIF8", "a moving picture", "save it as PNG or PDF"),
    (b"\x1f\x8b", "a compressed file", "unpack it first"),
    (b"7z\xbc\xaf", "a compressed file", "unpack it first"),
    (b"\x7fELF", "a program", "choose a document"),
    (b"MZ", "a program", "choose a document"),
    (b"%!PS", "a PostScript file", "convert it to PDF"),
)
_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_WEB = frozenset({".html", ".htm", ".xhtml"})
_VALUES = frozenset({".csv", ".tsv"})
_MAIL = frozenset({".eml", ".mht", ".mhtml"})
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PICTURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*")
_OLE = b"\xd0\xcf\x11\xe0"
# How Office names the stream that holds a document under a password, in an old-style file.
_LOCKED_OFFICE = "EncryptedPackage".encode("utf-16-le")
READABLE = "PDF, docx, xlsx, pptx, html, epub, eml, csv, txt, md, png, jpg and tiff files can be read"


def kind_of(data: bytes, name: str) -> DocumentKind:
    """Says which reader takes `data`.

    Raises:
        IngestError: `empty_file`, `unsupported_type` or `binary_file`.
    """
    if not data:
        raise IngestError("empty_file", f"{name} has no bytes: was the copy or the download finished?")
    suffix = PurePath(name).suffix.lower()
    if b"%PDF-" in data[:_PDF_HEADER_WITHIN]:
        return "pdf"
    if data.startswith(_ZIP) or suffix in PACKAGE_SUFFIXES:
        if data.startswith(_OLE) and _LOCKED_OFFICE in data:
            raise IngestError("password_required", f"{name} opens only with a password: save a copy without one.")
        return package_kind(data, name)
    if data.startswith(_PICTURES):
        return "picture"
    if suffix in PICTURE_SUFFIXES:
        raise IngestError(
            "corrupt", f"{name} is called a picture but does not begin like one: get it again from its source."
        )
    for start, what, advice in _OTHERS:
        # Two ASCII letters open many texts as well; only a name that promises no text makes them a program.
        if data.startswith(start) and not (start == b"MZ" and b"\0" not in data[:512]):
            raise IngestError("unsupported_type", f"{name} is {what}: {advice} ({READABLE}).")
    if suffix == ".pdf" and _HTML.match(data[:4096]):
        raise IngestError(
            "unsupported_type",
            f"{name} is a web page, often one that tells why a download failed: get the PDF again, or rename it to "
            ".html.",
        )
    if suffix == ".pdf":
        raise IngestError(
            "corrupt", f"{name} is called a PDF but does not begin like one: get it again from its source."
        )
    if (
        b"\0" in data[:65536]
        and not data.startswith(_UNICODE_MARKS)
        and not _looks_utf16(data)
        and not unmarked_utf16(data)
    ):
        raise IngestError("binary_file", f"{name} holds no text but binary data: choose a document ({READABLE}).")
    if suffix in _MARKDOWN:
        return "md"
    if suffix in _WEB or (suffix not in _TEXT | _MAIL | _VALUES and _HTML.match(data[:4096])):
        return "html"
    if suffix in _VALUES:
        return "csv"
    if suffix in _MAIL:
        return "eml"
    if suffix in _TEXT or _is_plain(data):
        return "txt"
    raise IngestError("unsupported_type", f"{name} ends in {suffix}, which can't be read: {READABLE}.")


def _looks_utf16(data: bytes) -> bool:
    """UTF-16 without a mark: in Latin text every second byte is zero, and never both of a pair."""
    sample = data[: 4096 & ~1]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    pairs = max(1, len(sample) // 2)
    return max(even, odd) > 0.4 * pairs and min(even, odd) < 0.02 * pairs


def _is_plain(data: bytes) -> bool:
    """Source code, tables and the like: text whatever the ending says."""
    sample = data[:65536]
    control = sum(sample.count(bytes([code])) for code in range(32) if code not in (9, 10, 12, 13, 27))
    return control == 0
