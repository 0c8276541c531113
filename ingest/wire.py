"""Decides how a document leaves the process that read it: as JSON, because a parser of bad files isn't trusted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ingest.document import Document, Heading, Page


def document_to_wire(document: Document) -> dict[str, Any]:
    """Gives plain values for `json.dumps`."""
    return asdict(document)


def document_from_wire(fields: dict[str, Any]) -> Document:
    """The inverse of `document_to_wire`."""
    return Document(
        id=fields["id"],
        title=fields["title"],
        kind=fields["kind"],
        pages=tuple(Page(**page) for page in fields["pages"]),
        headings=tuple(Heading(**heading) for heading in fields["headings"]),
        warnings=tuple(fields["warnings"]),
    )
