"""Decides what a document is once its bytes have been read: pages of text, and spans of that text.

Every span (`start`, `end`) counts characters of `Document.text`. Nothing here knows of language models.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

PAGE_BREAK = "\f"

DocumentKind = Literal["pdf", "txt", "md", "html", "docx", "xlsx", "csv", "pptx", "epub", "eml", "picture"]
SHEETED: frozenset[DocumentKind] = frozenset({"pdf", "picture"})
"""Kinds whose pages are sheets to look at; of the others only the words are known."""
Origin = Literal["text", "doubtful", "picture", "ocr", "unread"]


class IngestError(Exception):
    """A file that can't be taken in, as one sentence for a person, with a stable code for programs.

    Args:
        code: One of empty_file, empty_document, unsupported_type, binary_file, corrupt, password_required,
            unsupported_encryption, unknown_encoding, garbled_text, too_large, too_complex, timed_out, not_found.
        message: One sentence that says what is wrong and what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Page:
    """One sheet.

    Attributes:
        number: Counts sheets from 1.
        label: What is printed on it, None where the file names none.
        origin: Where `text` comes from: "text" (the file says it), "doubtful" (so too, but much of it means nothing),
            "picture" (it shows something and prints no words), "ocr" (recognised in the picture), "unread" (it could
            not be opened and has no words).
    """

    number: int
    text: str
    label: str | None = None
    origin: Origin = "text"


@dataclass(frozen=True)
class Heading:
    """A heading or outline entry. `start` is its place in `Document.text`, `level` 1 is the highest."""

    title: str
    level: int
    start: int


@dataclass(frozen=True)
class Document:
    """One file's text with its pages.

    Attributes:
        id: The first 16 hexadecimal digits of SHA-256 over the file's bytes.
        title: From the file's metadata or first heading, else the file's name.
        warnings: Sentences for the person who brought the file ("Page 3 has no text (a scan?).").
    """

    id: str
    title: str
    kind: DocumentKind
    pages: tuple[Page, ...]
    headings: tuple[Heading, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The pages' texts joined by `PAGE_BREAK`."""
        return PAGE_BREAK.join(page.text for page in self.pages)

    @cached_property
    def page_starts(self) -> tuple[int, ...]:
        """Where each page begins in `text`, ascending."""
        starts, at = [], 0
        for page in self.pages:
            starts.append(at)
            at += len(page.text) + len(PAGE_BREAK)
        return tuple(starts)


@dataclass(frozen=True)
class Paragraph:
    """What an answer cites: a few sentences of one page. `number` counts from 1 within the document, for ever."""

    number: int
    page: int
    start: int
    end: int


@dataclass(frozen=True)
class Passage:
    """What retrieval finds: at most the embedder's token limit, never across a page of a PDF."""

    number: int
    page: int
    start: int
    end: int


@dataclass(frozen=True)
class Section:
    """What the model reads and the engine caches: a contiguous run of paragraphs, cut at headings or pages.

    `first_paragraph` and `last_paragraph` are paragraph numbers, both included.
    """

    number: int
    title: str
    start: int
    end: int
    first_page: int
    last_page: int
    first_paragraph: int
    last_paragraph: int
    num_tokens: int
