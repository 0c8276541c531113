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
        title=_sound(fields["title"]),
        kind=fields["kind"],
        pages=tuple(
            Page(
                page["number"],
                _sound(page["text"]),
                None if page["label"] is None else _sound(page["label"]),
                page["origin"],
            )
            for page in fields["pages"]
        ),
        headings=tuple(Heading(_sound(one["title"]), one["level"], one["start"]) for one in fields["headings"]),
        warnings=tuple(_sound(warning) for warning in fields["warnings"]),
    )


def _sound(text: str) -> str:
    """Half a surrogate pair, which bad files hold and no store takes, becomes one question mark: spans stay."""
    return text.encode("utf-8", "replace").decode()
