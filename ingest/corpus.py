"""Decides what the rest of the program may ask of documents: take in, list, show, search, remove, in named bases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from ingest.add import Added, Adding
from ingest.backup import BackedUp, backup
from ingest.changes import Changes
from ingest.check import Home, check
from ingest.dictionary import Dictionary
from ingest.embed import Embedder
from ingest.embed_choice import Embedders
from ingest.embedding import Embedding
from ingest.findings import Report
from ingest.index import INDEX_FILE, open_home
from ingest.intake import Intake, Told
from ingest.naming import FileToAdd
from ingest.opened import OpenedHome
from ingest.read import Progress
from ingest.rebuild import rebuild
from ingest.rerank import Reranker, named_reranker
from ingest.search import Hit, Lookup
from ingest.searched import SearchedShelf
from ingest.settings import IngestSettings
from ingest.store import Store, StoredDocument
from ingest.tags import Tags


class Corpus(SearchedShelf):
    """All documents under one home. Safe for several threads, and several processes may have the same home open.

    Looking up is `ingest.shelf`, searching `ingest.searched`; what changes a home stands here.
    """

    def __init__(
        self, home: Path, settings: IngestSettings, embedder: Embedder | None, reranker: Reranker | None = None
    ) -> None:
        self._home = OpenedHome.open(home)
        database, files = self._home.database, self._home.files
        super().__init__(
            settings,
            database,
            Store(database, files),
            Changes(database, files),
            Lookup(open_home(settings.vector_index, home / INDEX_FILE)),
            Embedders(database, settings, embedder, home),
            Dictionary.find(home),
            reranker or named_reranker(settings),
        )
        self._tags = Tags(database)
        self._intake = Intake(
            settings,
            database,
            self._store,
            Adding(self._store, self._changes, self._home.staging, settings),
            Embedding(database, home / "embedding.lock"),
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
        self._home.close()

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
        return rebuild(self._home.path, self._database, self._store, self._changes, embedder, self.settings, progress)

    # -- keeping

    def check(self, *, repair: bool = False) -> Report:
        """Looks whether all that is stored fits together; with `repair`, what can be made anew is."""
        home = Home(self._home.path, self._database, self._store, self._embedders, self.settings)
        return check(home, repair)

    def backup(self, path: Path, beside: Sequence[Path] = (), progress: Progress | None = None) -> BackedUp:
        """Writes the base, the original files and the files `beside` (below the home) into one archive.

        As all of it is at one moment, while others go on.

        Raises:
            IngestError: `backup_failed`; no file is left then.
        """
        return backup(self._home.path, self._database, path, beside, progress)


__all__: Sequence[str] = ["Added", "Corpus", "Hit", "IngestSettings", "StoredDocument"]
