"""Decides what the rest of the program may ask of documents: take in, list, show, search, remove, in named bases."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ingest.add import Added, AddStatus, Outcome, add_file, prepare
from ingest.changes import Changes
from ingest.database import Database
from ingest.dictionary import LANGUAGES, Concept, Dictionary
from ingest.document import Document, IngestError, Page, Paragraph, Passage, Section
from ingest.embed import Embedder
from ingest.embed_choice import Embedders, not_read
from ingest.identity import EmbedderIdentity
from ingest.language import language_of, languages_of
from ingest.neighbours import PASSAGES_A_PLACE, places
from ingest.read import Progress
from ingest.search import Hit, Scope, search
from ingest.sections import split_sections
from ingest.settings import IngestSettings
from ingest.store import Store, StoredDocument
from ingest.vectors import NearestPassages

_FEWEST_ID_LETTERS = 4
_log = logging.getLogger(__name__)


class Corpus:
    """All documents under one home. Safe for several threads, and several processes may have the same home open.

    `doc_id` arguments are whole ids; `resolve_document` finds one from what a person types.
    """

    def __init__(self, home: Path, settings: IngestSettings, embedder: Embedder | None) -> None:
        self.settings = settings
        files = home / "files"
        self._staging = home / "staging"
        for folder in (files, self._staging):
            folder.mkdir(parents=True, exist_ok=True)
        self._database = Database(home / "documents.sqlite3")
        self._store = Store(self._database, files)
        self._changes = Changes(self._database, files)
        self._nearest = NearestPassages(home / "passages.faiss")
        self._embedders = Embedders(self._database, settings, embedder)
        self._dictionary = Dictionary.find(home)
        self._languages: dict[str, tuple[str, ...]] = {}
        self._told_not_read = False

    @classmethod
    def open(cls, home: Path, settings: IngestSettings | None = None, *, embedder: Embedder | None = None) -> Self:
        """Opens a home, or makes it. Quick: the embedder is loaded by the first `add` or `search`.

        Args:
            embedder: In place of the one that `settings.embedder` names.

        Raises:
            IngestError: `store_damaged` or `store_version`.
        """
        return cls(home, settings or IngestSettings(), embedder)

    def close(self) -> None:
        """Ends all threads' use; the object can't be used afterwards."""
        self._database.close()

    # -- changing

    def add(
        self, path: Path, *, kb: str = "default", name: str | None = None, progress: Progress | None = None
    ) -> Added:
        """Takes a file in under `name` (None: the file's own). All of it is stored when this returns, or nothing.

        Raises:
            IngestError: Where it can't be read; the base is then as it was.
        """
        started = time.monotonic()
        outcome = add_file(
            path,
            kb,
            _storable(name or path.name),
            self._store,
            self._changes,
            self._staging,
            self._embedders.for_text,
            self.settings,
            progress,
        )
        return self._added(path, kb, outcome, time.monotonic() - started)

    def _added(self, path: Path, kb: str, outcome: Outcome, seconds: float) -> Added:
        document = self.document(outcome.document_id, kb)
        warnings = document.warnings
        if outcome.earlier_name is not None:
            did = "nothing was added" if outcome.status == "duplicate" else "the old text was removed"
            warnings = (f"The same file is there as {outcome.earlier_name}: {did}.", *warnings)
        status: AddStatus = outcome.status
        if status in ("ok", "replaced") and not self._told_not_read:
            told = not_read(self._embedders.base_name, self._languages_of(document.id))
            self._told_not_read = told is not None
            warnings = (*warnings, told) if told else warnings
        if document.status == "no_text" and status in ("ok", "replaced"):
            status = "no_text"
        return Added(
            str(path),
            status,
            document.id,
            document.pages,
            len(self.sections(document.id)),
            document.passages,
            document.tokens,
            round(seconds, 3),
            warnings,
        )

    def remove(self, doc_id: str, kb: str | None = None) -> bool:
        """Takes a document out of `kb` (None: out of all); False if it was not there.

        When this returns, no search of any process finds it there; without a base left, text and file are erased.
        """
        return self._changes.remove(doc_id, kb)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Cuts and embeds all stored texts again with the present embedder; the old passages serve until it is done.

        Returns the number of passages. Needed after another embedder was set; reads no files.
        """
        done = []
        ids = sorted({document.id for document in self._store.documents(None)})
        embedder = self._embedders.for_rebuild(self.languages(None))
        for number, doc_id in enumerate(ids, 1):
            prepared = prepare(self._store.document(doc_id), embedder, self.settings, "", 0, None)
            done.append((doc_id, prepared.passages, prepared.vectors))
            if progress:
                progress("embed", number, len(ids))
        self._changes.replace_passages(done, EmbedderIdentity(embedder.name, embedder.dimension))
        return sum(len(passages) for _, passages, _ in done)

    # -- asking

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

    def search(
        self,
        question: str,
        *,
        kb: str | None = "default",
        doc_ids: Sequence[str] | None = None,
        k: int = 10,
        also: Sequence[str] = (),
        across: bool = False,
    ) -> tuple[Hit, ...]:
        """The best `k` passages of `kb` (None: of all), best first, among `doc_ids` where given. May be empty.

        Args:
            also: The question in other words or languages, searched beside it.
            across: Documents in other languages than the question's are searched by a dictionary too.

        Raises:
            IngestError: `embedder_changed`.
        """
        scope = Scope(kb, None if doc_ids is None else tuple(doc_ids))
        if self._embedders.base_name is None:
            return ()
        embedder = self.embedder
        concepts = self._concepts(question, self.languages(kb, doc_ids)) if across else {}
        with self._database.reading() as connection:
            return search(connection, self._nearest, embedder, question, scope, k, also, concepts)

    def _concepts(self, question: str, languages: Sequence[str]) -> dict[str, tuple[Concept, ...]]:
        """What a question asks about, by language, where one of `languages` is another that the dictionary knows."""
        own = language_of(question)
        if self._dictionary is None or own is None or not LANGUAGES.intersection(languages) - {own}:
            return {}
        try:
            said = {language: self._dictionary.concepts(question, language) for language in (own, *languages)}
        except (OSError, EOFError, sqlite3.Error) as error:
            _log.warning("The search goes on without the dictionary: %s", error)
            return {}
        return {language: concepts for language, concepts in said.items() if concepts}

    def places(
        self,
        question: str,
        *,
        kb: str | None = "default",
        doc_ids: Sequence[str] | None = None,
        k: int = 10,
        also: Sequence[str] = (),
        across: bool = False,
    ) -> tuple[Hit, ...]:
        """As `search`, with passages that follow each other on a page made one hit: for people to look at."""
        found = self.search(question, kb=kb, doc_ids=doc_ids, k=PASSAGES_A_PLACE * k, also=also, across=across)
        return places(found, k, lambda doc_id, start, end: self._store.text(doc_id)[start:end])

    @property
    def embedder(self) -> Embedder:
        """The one in use; loaded when first asked for (seconds)."""
        return self._embedders.for_text()


def _storable(name: str) -> str:
    """A file name that can be kept and shown: no path, no NUL, nothing that is not Unicode."""
    return Path(name.replace("\0", "")).name.encode("utf-8", "replace").decode() or "unnamed"


def _in(kb: str | None) -> str:
    return "" if kb is None else f' in "{kb}"'


__all__: Sequence[str] = ["Added", "Corpus", "Hit", "IngestSettings", "StoredDocument"]
