"""Decides what a saved e-mail says: who, when, about what, and its words; attachments are named, never opened."""

from __future__ import annotations

from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser

from ingest.archive import translated
from ingest.blocks import Block, Title, Words, lay_out
from ingest.document import Document, IngestError
from ingest.encoding import decode, decode_declared
from ingest.read_html import html_blocks, parsed
from ingest.title import title_of

_HEADERS = ("From", "To", "Cc", "Date")
_MOST_PARTS = 1_000
_MOST_DEPTH = 50


def read_eml(data: bytes, document_id: str, name: str) -> Document:
    """Reads a message, and messages that were forwarded within it.

    Raises:
        IngestError: `corrupt`, `too_complex` or `empty_document`.
    """
    attachments: list[str] = []
    warnings: list[str] = []
    with translated(name):
        message = BytesParser(policy=policy.default).parsebytes(data)
        assert isinstance(message, EmailMessage)
        if not message.keys():
            raise IngestError("corrupt", f"{name} is called an e-mail but begins with no header: save it anew.")
        blocks = list(_of_message(message, name, 1, attachments, warnings))
        subject = _header(message, "Subject")
    laid = lay_out(blocks)
    if laid.is_empty:
        raise IngestError("empty_document", f"{name} holds no words: was the right file chosen?")
    if attachments:
        count = "1 attachment was" if len(attachments) == 1 else f"{len(attachments)} attachments were"
        warnings.append(f"{count} not read: save and add what matters ({', '.join(attachments[:8])}).")
    return Document(
        document_id,
        title_of(name, subject),
        "eml",
        laid.pages,
        laid.headings,
        tuple(dict.fromkeys(warnings)),
    )


def _of_message(
    message: EmailMessage, name: str, level: int, attachments: list[str], warnings: list[str]
) -> Iterator[Block]:
    if level > _MOST_DEPTH:
        raise IngestError("too_complex", f"{name} holds messages within messages without end: leave it out.")
    if subject := _header(message, "Subject"):
        yield Title(subject, min(level, 6))
    for number, header in enumerate(one for one in _HEADERS if _header(message, one)):
        yield Words(f"{header}: {_header(message, header)}", tight=number > 0)
    if message.get_content_type() == "message/rfc822":
        yield from _forwarded(message, name, level, attachments, warnings)
        return
    body = message.get_body(("plain", "html"))
    if body is not None:
        yield from _of_body(body, name, warnings)
    parts = list(message.iter_attachments()) if message.is_multipart() else []
    if body is None and not message.is_multipart():
        attachments.append(message.get_filename() or message.get_content_type())
    if len(parts) > _MOST_PARTS:
        raise IngestError("too_complex", f"{name} has {len(parts):,} attachments: leave it out.")
    for part in parts:
        if part.get_content_type() == "message/rfc822":
            yield from _forwarded(part, name, level, attachments, warnings)
        elif part is not body:
            attachments.append(part.get_filename() or part.get_content_type())


def _forwarded(part: MIMEPart, name: str, level: int, attachments: list[str], warnings: list[str]) -> Iterator[Block]:
    for inner in part.iter_parts():
        assert isinstance(inner, EmailMessage)
        yield from _of_message(inner, name, level + 1, attachments, warnings)


def _of_body(body: MIMEPart, name: str, warnings: list[str]) -> Iterator[Block]:
    raw = body.get_payload(decode=True)
    assert isinstance(raw, bytes)
    text, about = _decoded(raw, body.get_content_charset(), name)
    warnings += about
    if body.get_content_subtype() == "html":
        root = parsed(text)
        if root is not None:
            yield from html_blocks(root)
    else:
        yield Words(text)


def _decoded(raw: bytes, charset: str | None, name: str) -> tuple[str, list[str]]:
    if not raw:
        return "", []
    return decode_declared(raw, name, charset) if charset not in (None, "us-ascii") else decode(raw, name)


def _header(message: EmailMessage, name: str) -> str:
    return " ".join(str(message.get(name, "")).split())
