"""Decides how stored documents are looked up: by base, by what a person calls them, by their parts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ingest.changes import Changes
from ingest.database import Database
from ingest.document import Document, IngestError, Page, Paragraph, Passage, Section
from ingest.language import languages_of
from ingest.naming import is_below
from ingest.scope import Filters, Scope, matching_documents
from ingest.sections import split_sections
from ingest.settings import IngestSettings
from ingest.store import Store, StoredDocument
from ingest.successors import Successor, successors

_FEWEST_ID_LETTERS = 4


class Shelf:
    """The documents of a home. Safe for several threads.

    `doc_id` arguments are whole ids; `resolve_document` finds one from what a person types.
    """

    def __init__(self, settings: IngestSettings, database: Database, store: Store, changes: Changes) -> None:
        self.settings = settings
        self._database = database
        self._store = store
        self._changes = changes
        self._languages: dict[str, tuple[str, ...]] = {}

    def kbs(self) -> tuple[str, ...]:
        """The bases that hold a document, by name."""
        return self._store.kbs()

    def documents(self, kb: str | None = None) -> tuple[StoredDocument, ...]:
        """The members of `kb` (None: of all), in the order in which they were added."""
        return self._store.documents(kb)

    def document(self, doc_id: str, kb: str | None = None) -> StoredDocument:
        """One member.

        Raises:
            IngestError: `not_found`.
        """
        for document in self._store.documents(kb, doc_id):
            return document
        raise IngestError("not_found", f"There is no document {doc_id}{_in(kb)}: `readonce ls` shows what there is.")

    def has(self, doc_id: str, kb: str | None = None) -> bool:
        """Whether there is such a member."""
        return bool(self._store.documents(kb, doc_id))

    def has_file(self, name: str, kb: str) -> bool:
        """Whether a member of `kb` is called `name`. Quick."""
        return self._store.member(kb, name) is not None

    def successors(self, doc_id: str) -> tuple[Successor, ...]:
        """What has come in the place of a document that was replaced: one for each base, the latest first."""
        with self._database.reading() as connection:
            return successors(connection, doc_id)

    def matching(self, filters: Filters, kb: str | None = "default") -> frozenset[str]:
        """The documents of `kb` (None: of all) that `filters` leave, by id; pages are not looked at."""
        with self._database.reading() as connection:
            return frozenset(matching_documents(connection, Scope(kb, None, filters)))

    def resolve_document(self, words: str, kb: str | None = None) -> StoredDocument:
        """Finds the document that a person means: by id, by the id's first letters, or by file name.

        Raises:
            IngestError: `not_found`, or `ambiguous` where several fit.
        """
        documents = self._store.documents(kb)
        wanted = words.strip().casefold()
        tests = (
            lambda document: document.id == wanted,
            lambda document: document.name.casefold() == wanted,
            lambda document: Path(document.name).stem.casefold() == wanted or document.title.casefold() == wanted,
            lambda document: len(wanted) >= _FEWEST_ID_LETTERS and document.id.startswith(wanted),
        )
        for test in tests:
            found = {document.id: document for document in documents if test(document)}
            if len(found) > 1:
                names = ", ".join(f"{document.id[:8]} {document.name}" for document in list(found.values())[:5])
                raise IngestError("ambiguous", f'"{words}" means several documents ({names}): use the id.')
            if found:
                return next(iter(found.values()))
        raise IngestError("not_found", f'There is no document "{words}"{_in(kb)}: `readonce ls` shows what there is.')

    def read_document(self, doc_id: str) -> Document:
        """The document as it was read, with its pages and headings."""
        return self._store.document(doc_id)

    def text(self, doc_id: str) -> str:
        """What all spans count characters of."""
        return self._store.text(doc_id)

    def pages(self, doc_id: str) -> tuple[Page, ...]:
        return self._store.pages(doc_id)

    def paragraphs(self, doc_id: str) -> tuple[Paragraph, ...]:
        return self._store.paragraphs(doc_id)

    def passages(self, doc_id: str) -> tuple[Passage, ...]:
        return self._store.passages(doc_id)

    def sections(self, doc_id: str) -> tuple[Section, ...]:
        """The sections of `settings.section_tokens`; worked out once a document and budget, then kept."""
        budget = self.settings.section_tokens
        kept = self._store.sections(doc_id, budget)
        if kept:
            return kept
        sections = split_sections(self._store.document(doc_id), self._store.paragraphs(doc_id), budget)
        if sections:
            self._changes.save_sections(doc_id, budget, sections)
        return sections

    def file(self, doc_id: str) -> Path:
        """The original bytes, as they were when the file was added."""
        return self._store.file(doc_id, self._store.suffix(doc_id))

    def languages(self, kb: str | None = "default", doc_ids: Sequence[str] | None = None) -> tuple[str, ...]:
        """What the documents of `kb` (None: of all), or those of `doc_ids`, are written in; most documents first.

        Codes of ISO 639-1. Each document is looked at once a process: its id names its bytes.
        """
        counts: Counter[str] = Counter()
        for document in self._store.documents(kb):
            if doc_ids is None or document.id in doc_ids:
                counts.update(self._languages_of(document.id))
        return tuple(code for code, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def _languages_of(self, doc_id: str) -> tuple[str, ...]:
        if doc_id not in self._languages:
            self._languages[doc_id] = languages_of(self._store.text(doc_id))
        return self._languages[doc_id]

    def vanished(self, folder: Path, kb: str = "default") -> tuple[StoredDocument, ...]:
        """Members of `kb` whose files lay below `folder` and are there no more."""
        return tuple(
            document
            for document in self._store.documents(kb)
            if document.source and is_below(document.source, folder) and not os.path.lexists(document.source)
        )


def _in(kb: str | None) -> str:
    return "" if kb is None else f' in "{kb}"'
