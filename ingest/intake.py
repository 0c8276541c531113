"""Decides how files come into a home: one or many, stored as soon as they are read, embedded behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.add import Added, Adding, AddStatus, Outcome, Staged
from ingest.add_many import ManyFiles
from ingest.behind import Behind
from ingest.changes import Prepared
from ingest.cores import num_cores
from ingest.database import Database
from ingest.embed import Embedder
from ingest.embed_choice import Embedders, not_read
from ingest.embedding import Embedding
from ingest.identity import EmbedderIdentity, check_identity
from ingest.naming import FileToAdd, name_of, storable
from ingest.passages import load_splitters
from ingest.prepare import prepare
from ingest.preparers import Preparers
from ingest.read import Progress, read
from ingest.settings import IngestSettings
from ingest.store import Store, StoredDocument

# Starting processes takes about a second: for fewer files it does not pay.
_FEWEST_SIDE_BY_SIDE = 4


@dataclass(frozen=True)
class Told:
    """What there is to tell of a document that has come in."""

    document: StoredDocument
    num_sections: int
    languages: tuple[str, ...]


class Intake:
    """The way in. Safe for several threads.

    Args:
        tell: Looks a document up by its id and base.
    """

    def __init__(
        self,
        settings: IngestSettings,
        database: Database,
        store: Store,
        adding: Adding,
        embedding: Embedding,
        embedders: Embedders,
        tell: Callable[[str, str], Told],
    ) -> None:
        self._settings = settings
        self._database = database
        self._store = store
        self._adding = adding
        self._embedding = embedding
        self._embedders = embedders
        self._tell = tell
        self._told_not_read = False

    def add(self, path: Path, kb: str, name: str | None, progress: Progress | None, embed: bool) -> Added:
        """As `Corpus.add`."""
        started = time.monotonic()
        file = FileToAdd(path)
        named = name_of(file, kb, self._store, {}) if name is None else storable(name)
        staged = self._adding.stage(path, kb, named, file.source if name is None else None)
        outcome = staged if isinstance(staged, Outcome) else self._read_and_store(staged, progress)
        if embed:
            self.embed_missing([outcome.document_id], progress)
        return self._added(path, kb, outcome, time.monotonic() - started)

    def add_all(
        self, files: Sequence[FileToAdd], kb: str, progress: Callable[[str, str, int, int], None] | None
    ) -> Iterator[tuple[FileToAdd, Added | Exception]]:
        """As `Corpus.add_all`."""
        jobs = self._settings.jobs or num_cores()
        only_here = jobs == 1 or len(files) < _FEWEST_SIDE_BY_SIDE or self._embedders.is_given
        many = ManyFiles(
            self._adding,
            self._store,
            kb,
            lambda staged: self._prepared(staged, _of_file(progress, staged.name)),
            lambda: _identity_of(self._embedders.in_use()),
            None if only_here else lambda embedder: Preparers(jobs, self._settings, embedder.name, progress),
            jobs,
        )
        with Behind(lambda stop: self.embed_missing(None, _of_file(progress, ""), stop)) as behind:
            last = time.monotonic()
            for taken in many.run(files):
                now = time.monotonic()
                if isinstance(taken.result, Exception):
                    yield taken.file, taken.result
                else:
                    behind.more()
                    yield taken.file, self._added(taken.file.path, kb, taken.result, now - last)
                last = now

    def embed_missing(
        self,
        doc_ids: Sequence[str] | None = None,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
    ) -> int:
        """As `Corpus.embed_missing`."""
        if not self._embedding.missing(doc_ids):
            return 0
        return self._embedding.run(self._embedders.in_use(), doc_ids, progress, stop)

    def num_to_embed(self) -> int:
        """How many passages of all documents are found by their words alone so far."""
        return self._embedding.missing()

    def _read_and_store(self, staged: Staged, progress: Progress | None) -> Outcome:
        try:
            prepared, made_by = self._prepared(staged, progress)
            if progress:
                progress("store", 0, 1)
            outcome = self._adding.store(staged, prepared, made_by)
            if progress:
                progress("store", 1, 1)
            return outcome
        finally:
            staged.discard()

    def _prepared(self, staged: Staged, progress: Progress | None) -> tuple[Prepared, EmbedderIdentity]:
        # Another process reads, so that loading what splits costs no time.
        threading.Thread(target=load_splitters).start()
        document = read(staged.copy, self._settings, progress, name=staged.name)
        embedder = self._embedders.in_use()
        made_by = _identity_of(embedder)
        with self._database.reading() as connection:
            check_identity(connection, made_by, bind=False)
        num_bytes = staged.copy.stat().st_size
        return prepare(document, embedder, self._settings, staged.suffix, num_bytes, progress), made_by

    def _added(self, path: Path, kb: str, outcome: Outcome, seconds: float) -> Added:
        told = self._tell(outcome.document_id, kb)
        document = told.document
        warnings = document.warnings
        if outcome.moved:
            warnings = (f"Its file was {outcome.earlier_name} before: it goes by the new name.", *warnings)
        elif outcome.earlier_name is not None:
            did = "nothing was added" if outcome.status == "duplicate" else "the old text was removed"
            warnings = (f"The same file is there as {outcome.earlier_name}: {did}.", *warnings)
        if outcome.difference is not None:
            warnings = (outcome.difference.words, *warnings)
        status: AddStatus = outcome.status
        if status in ("ok", "replaced") and not self._told_not_read:
            unread = not_read(self._embedders.base_name, told.languages)
            self._told_not_read = unread is not None
            warnings = (*warnings, unread) if unread else warnings
        if document.status == "no_text" and status in ("ok", "replaced"):
            status = "no_text"
        return Added(
            str(path),
            status,
            document.id,
            document.pages,
            told.num_sections,
            document.passages,
            document.tokens,
            round(seconds, 3),
            warnings,
            outcome.difference,
            outcome.former_name,
        )


def _identity_of(embedder: Embedder) -> EmbedderIdentity:
    return EmbedderIdentity(embedder.name, embedder.dimension)


def _of_file(progress: Callable[[str, str, int, int], None] | None, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda stage, done, total: progress(name, stage, done, total)
