"""Decides what the rest of the program may ask of documents: take in, list, show, search, remove, in named bases."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from ingest.add import Added, Adding
from ingest.backup import SNAPSHOTS, BackedUp, backup
from ingest.changes import Changes
from ingest.check import Home, check
from ingest.database import Database
from ingest.dictionary import LANGUAGES, Concept, Dictionary
from ingest.document import Document, IngestError, Page, Paragraph, Passage, Section
from ingest.embed import Embedder
from ingest.embed_choice import Embedders
from ingest.embedding import Embedding
from ingest.findings import Report
from ingest.index import INDEX_FILE, open_home
from ingest.intake import Intake, Told
from ingest.language import language_of, languages_of
from ingest.naming import FileToAdd, is_below
from ingest.neighbours import PASSAGES_A_PLACE, places
from ingest.occupancy import Occupancy
from ingest.read import Progress
from ingest.rebuild import rebuild
from ingest.rerank import MOST_READ, Reranker, named_reranker, reranked
from ingest.restore import left_behind
from ingest.scope import ANYTHING, Filters, Scope, matching_documents
from ingest.search import Hit, Lookup, search
from ingest.sections import split_sections
from ingest.settings import IngestSettings
from ingest.store import Store, StoredDocument
from ingest.successors import Successor, successors
from ingest.sweep import clear_up
from ingest.tags import Tags

_FEWEST_ID_LETTERS = 4
_log = logging.getLogger(__name__)


class Corpus:
    """All documents under one home. Safe for several threads, and several processes may have the same home open.

    `doc_id` arguments are whole ids; `resolve_document` finds one from what a person types.
    """

    def __init__(
        self, home: Path, settings: IngestSettings, embedder: Embedder | None, reranker: Reranker | None = None
    ) -> None:
        self.settings = settings
        self._home = home
        files, staging = home / "files", home / "staging"
        for folder in (files, staging):
            folder.mkdir(parents=True, exist_ok=True)
        self._occupancy = Occupancy(home)
        try:
            self._database = Database(home / "documents.sqlite3")
            if self._occupancy.alone:
                clear_up(self._database, files, (staging, home / SNAPSHOTS))
                left_behind(home, clear=True)
        except BaseException:
            self._occupancy.close()
            raise
        self._occupancy.share()
        self._store = Store(self._database, files)
        self._changes = Changes(self._database, files)
        self._tags = Tags(self._database)
        self._lookup = Lookup(open_home(settings.vector_index, home / INDEX_FILE))
        self._embedders = Embedders(self._database, settings, embedder, home)
        self._dictionary = Dictionary.find(home)
        self._reranker = reranker or named_reranker(settings)
        self._languages: dict[str, tuple[str, ...]] = {}
        self._intake = Intake(
            settings,
            self._database,
            self._store,
            Adding(self._store, self._changes, staging, settings),
            Embedding(self._database, home / "embedding.lock"),
            self._embedders,
            self._told,
        )

    @classmethod
    def open(
        cls,
        home: Path,
        settings: IngestSettings | None = None,
        *,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
    ) -> Self:
        """Opens a home, or makes it. Quick: the embedder is loaded by the first `add` or `search`.

        Args:
            embedder, reranker: In place of those that the settings name.

        Raises:
            IngestError: `store_damaged` or `store_version`.
        """
        return cls(home, settings or IngestSettings(), embedder, reranker)

    def close(self) -> None:
        """Ends all threads' use; the object can't be used afterwards."""
        self._database.close()
        self._occupancy.close()

    # -- changing

    def add(
        self,
        path: Path,
        *,
        kb: str = "default",
        name: str | None = None,
        progress: Progress | None = None,
        embed: bool = True,
    ) -> Added:
        """Takes a file in under `name` (None: the file's own). All of it is stored when this returns, or nothing.

        Args:
            embed: Its passages have their vectors too when this returns; else `embed_missing` makes them. Until then
                it is found by its words, and read whole or by section.

        Raises:
            IngestError: Where it can't be read; the base is then as it was.
        """
        return self._intake.add(path, kb, name, progress, embed)

    def add_all(
        self,
        files: Sequence[FileToAdd],
        *,
        kb: str = "default",
        progress: Callable[[str, str, int, int], None] | None = None,
    ) -> Iterator[tuple[FileToAdd, Added | Exception]]:
        """Takes many files in; gives each, in order, as soon as it can be asked, or why it can't be read.

        `settings.jobs` of them are read at once. After the last it returns when all are found by meaning too.

        Args:
            progress: As `ingest.read.Progress`, with the file's name before it; "" stands for all of them.
        """
        return self._intake.add_all(files, kb, progress)

    def embed_missing(
        self,
        doc_ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
    ) -> int:
        """Has all passages (of `doc_ids`, None: of all documents) found by meaning; returns how many it embedded.

        Goes on where a stopped or killed process ended. Loads the embedder's model only where something is missing.

        Raises:
            IngestError: `embedder_changed`, `embedder_missing`.
        """
        return self._intake.embed_missing(doc_ids, progress, stop)

    def num_to_embed(self) -> int:
        """How many passages of all documents are found by their words alone so far."""
        return self._intake.num_to_embed()

    def vanished(self, folder: Path, kb: str = "default") -> tuple[StoredDocument, ...]:
        """Members of `kb` whose files lay below `folder` and are there no more."""
        return tuple(
            document
            for document in self._store.documents(kb)
            if document.source and is_below(document.source, folder) and not os.path.lexists(document.source)
        )

    def _told(self, doc_id: str, kb: str) -> Told:
        return Told(self.document(doc_id, kb), len(self.sections(doc_id)), self._languages_of(doc_id))

    def remove(self, doc_id: str, kb: str | None = None) -> bool:
        """Takes a document out of `kb` (None: out of all); False if it was not there.

        When this returns, no search of any process finds it there; without a base left, text and file are erased.
        """
        return self._changes.remove(doc_id, kb)

    def change_tags(
        self, doc_id: str, kb: str = "default", *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Gives a document of `kb` tags and takes others away; says what it bears now. They stay when it is replaced.

        Raises:
            IngestError: `bad_tag`, `not_found`.
        """
        return self._tags.change(kb, doc_id, add, remove)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Cuts and embeds all stored texts again with the embedder that is set; the old passages serve until then.

        Returns the number of passages. Needed after another embedder was set; reads no files. Others may search, add
        and remove meanwhile; after a crash the next call goes on where this one was. `progress` counts passages.

        Raises:
            IngestError: `rebuild_running`.
        """
        embedder = self._embedders.for_rebuild()
        return rebuild(self._home, self._database, self._store, self._changes, embedder, self.settings, progress)

    # -- keeping

    def check(self, *, repair: bool = False) -> Report:
        """Looks whether all that is stored fits together; with `repair`, what can be made anew is."""
        home = Home(self._home, self._database, self._store, self._embedders, self.settings)
        return check(home, repair)

    def backup(self, path: Path, beside: Sequence[Path] = (), progress: Progress | None = None) -> BackedUp:
        """Writes the base, the original files and the files `beside` (below the home) into one archive.

        As all of it is at one moment, while others go on.

        Raises:
            IngestError: `backup_failed`; no file is left then.
        """
        return backup(self._home, self._database, path, beside, progress)

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

    def search(
        self,
        question: str,
        *,
        kb: str | None = "default",
        doc_ids: Sequence[str] | None = None,
        k: int = 10,
        also: Sequence[str] = (),
        filters: Filters | None = None,
        across: bool = False,
    ) -> tuple[Hit, ...]:
        """The best `k` passages of `kb` (None: of all), best first, among `doc_ids` where given. May be empty.

        Args:
            also: The question in other words or languages, searched beside it.
            filters: What a hit has to be (None: anything), looked at before ranking.
            across: Documents in other languages than the question's are searched by a dictionary too.

        Raises:
            IngestError: `embedder_changed`.
        """
        scope = Scope(kb, None if doc_ids is None else tuple(doc_ids), filters or ANYTHING)
        if self._embedders.base_name is None:
            return ()
        try:
            return self._searched(question, scope, k, also, across)
        except IngestError as error:
            # Between choosing the base's embedder and searching, a rebuild put another one's passages in place.
            if error.code != "embedder_changed" or self._embedders.in_use().name != self._embedders.base_name:
                raise
            return self._searched(question, scope, k, also, across)

    def _searched(self, question: str, scope: Scope, k: int, also: Sequence[str], across: bool) -> tuple[Hit, ...]:
        embedder = self.embedder
        concepts = self._concepts(question, self.languages(scope.kb, scope.doc_ids)) if across else {}
        with self._database.reading() as connection:
            wanted = k if self._reranker is None else max(k, MOST_READ)
            hits = search(connection, self._lookup, embedder, question, scope, wanted, also, concepts)
        return hits if self._reranker is None else reranked(self._reranker, question, hits)[:k]

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

    def get_ready(self) -> None:
        """Loads what a search needs, so that the first question does not wait for it. Blocking: seconds."""
        if self.kbs():
            self.search("ready", kb=None, k=1)

    def places(
        self,
        question: str,
        *,
        kb: str | None = "default",
        doc_ids: Sequence[str] | None = None,
        k: int = 10,
        also: Sequence[str] = (),
        filters: Filters | None = None,
        across: bool = False,
    ) -> tuple[Hit, ...]:
        """As `search`, with passages that follow each other on a page made one hit: for people to look at."""
        wanted = PASSAGES_A_PLACE * k
        found = self.search(question, kb=kb, doc_ids=doc_ids, k=wanted, also=also, filters=filters, across=across)
        return places(found, k, lambda doc_id, start, end: self._store.text(doc_id)[start:end])

    @property
    def embedder(self) -> Embedder:
        """The one in use; loaded when first asked for (seconds)."""
        return self._embedders.in_use()


def _in(kb: str | None) -> str:
    return "" if kb is None else f' in "{kb}"'


__all__: Sequence[str] = ["Added", "Corpus", "Hit", "IngestSettings", "StoredDocument"]
