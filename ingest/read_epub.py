"""Decides what an EPUB book says: each file of its reading order a page, by zipfile and lxml.

The libraries made for EPUB are under licences that this program can't take; what is needed of the format is small: a
container names the package, the package names the files in their order.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from ingest.archive import checked, translated
from ingest.blocks import Block, NewPage, lay_out
from ingest.coverage import UNSEEN_ADVICE, pages_words
from ingest.document import Document, IngestError
from ingest.html_unseen import has_unseen_words
from ingest.read_html import html_blocks, parsed
from ingest.title import title_of

_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
_LOCKED = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
"""Ways to scramble fonts; anything else that is encrypted is the text."""


def read_epub(
    data: bytes, document_id: str, name: str, max_pages: int, page_done: Callable[[int, int], None]
) -> Document:
    """Reads a book.

    Raises:
        IngestError: `corrupt`, `too_complex`, `too_large`, `unsupported_encryption` or `empty_document`.
    """
    blocks: list[Block] = []
    missing: list[str] = []
    unseen: list[int] = []
    with checked(data, name, is_office=False) as parts, translated(name):
        _refuse_locked(parts, name)
        package_path = _package_path(parts)
        package = _xml(parts.read(package_path))
        order = list(_order(package, posixpath.dirname(package_path)))
        if len(order) > max_pages:
            raise IngestError(
                "too_large", f"{name} has {len(order):,} chapters, the limit is {max_pages:,}: split the file."
            )
        for number, path in enumerate(order, 1):
            try:
                page = parts.read(path)
            except KeyError:
                missing.append(path)
                continue
            blocks.append(NewPage())
            root = parsed(_decoded(page))
            if root is not None:
                blocks += html_blocks(root)
                if has_unseen_words(root):
                    unseen.append(number - len(missing))
            page_done(number, len(order))
        title = "".join(package.xpath("string(//*[local-name()='title'])"))
    laid = lay_out(blocks)
    if laid.is_empty:
        raise IngestError("empty_document", f"{name} holds no words: is it a book of pictures?")
    warnings = [f"{len(missing)} of {len(order)} chapters are missing in the file."] if missing else []
    if unseen:
        verb = "holds" if len(unseen) == 1 else "hold"
        said = f"{pages_words(unseen)} {verb} words that can't be seen (white, tiny or see-through): {UNSEEN_ADVICE}."
        warnings.append(said)
    return Document(document_id, title_of(name, title), "epub", laid.pages, laid.headings, tuple(warnings))


def _refuse_locked(parts: zipfile.ZipFile, name: str) -> None:
    if "META-INF/encryption.xml" in parts.namelist():
        methods = _xml(parts.read("META-INF/encryption.xml")).xpath("//*[local-name()='EncryptionMethod']/@Algorithm")
        if set(methods) - _LOCKED:
            raise IngestError(
                "unsupported_encryption",
                f"{name} is locked by its seller (DRM) and can't be read: get a copy without the lock.",
            )


def _xml(data: bytes) -> Any:
    from lxml import etree

    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))


def _package_path(parts: zipfile.ZipFile) -> str:
    paths = _xml(parts.read("META-INF/container.xml")).xpath("//*[local-name()='rootfile']/@full-path")
    return str(paths[0])


def _order(package: Any, folder: str) -> Iterator[str]:
    items = {item.get("id"): item for item in package.xpath("//*[local-name()='manifest']/*[local-name()='item']")}
    for reference in package.xpath("//*[local-name()='spine']/*[local-name()='itemref']"):
        item = items.get(reference.get("idref"))
        if item is not None and item.get("media-type") in _PAGES and item.get("href"):
            yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href"))))


def _decoded(page: bytes) -> str:
    """EPUB allows UTF-8 and UTF-16 only."""
    return page.decode("utf-16" if page[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")
