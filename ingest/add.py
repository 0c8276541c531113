"""Decides a file's path into a base: copy, read, split, store. Its passages' vectors follow (`ingest.embedding`).

Only storing touches the base; from then on the document is found by its words and read by its sections.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from ingest.changes import Changes, Prepared
from ingest.difference import Difference, Version, compare
from ingest.document import IngestError
from ingest.identity import EmbedderIdentity
from ingest.read import check_size
from ingest.sections import split_sections
from ingest.settings import IngestSettings
from ingest.store import Store

AddStatus = Literal["ok", "unchanged", "replaced", "duplicate", "no_text"]
_STALE_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Added:
    """What became of a file.

    Attributes:
        status: ok, unchanged (same bytes, same name), replaced (other bytes, same name), duplicate (same bytes under
            another name: nothing was added), no_text (kept, but there is nothing to ask: a scan).
        tokens: What reading all of it costs a model, estimated.
        difference: From where on it is another text, where it has replaced one.
        former_name: What was known under this name in the base is there no more: it was replaced, or goes by another.
    """

    file: str
    status: AddStatus
    document_id: str
    pages: int
    sections: int
    passages: int
    tokens: int
    seconds: float
    warnings: tuple[str, ...]
    difference: Difference | None = None
    former_name: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a file in the base: `earlier_name` is set where the same bytes were there under it.

    `former_name` is as in `Added`.
    """

    document_id: str
    status: AddStatus
    earlier_name: str | None = None
    moved: bool = False
    difference: Difference | None = None
    former_name: str | None = None


@dataclass(frozen=True)
class Staged:
    """A copy of a file that nobody changes while it is read; `document_id` is that of its bytes."""

    copy: Path
    document_id: str
    kb: str
    name: str
    source: str | None

    @property
    def suffix(self) -> str:
        """The name's ending as the kept file's, where it is a plain one."""
        suffix = PurePath(self.name).suffix.lower()
        return suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else ""

    def discard(self) -> None:
        self.copy.unlink(missing_ok=True)


class Adding:
    """The steps of taking a file in; between `stage` and `store` its text is read and split, no matter by whom."""

    def __init__(self, store: Store, changes: Changes, staging: Path, settings: IngestSettings) -> None:
        self._store = store
        self._changes = changes
        self._staging = staging
        self._settings = settings

    def stage(self, path: Path, kb: str, name: str, source: str | None) -> Staged | Outcome:
        """What became of the file where there is nothing to read; else a copy, which the caller discards.

        Raises:
            IngestError: `empty_file`, `too_large` or `not_found`.
        """
        check_size(path, self._settings)
        # Bytes that are there already are not copied.
        known = self._settled(_digest(path), kb, name, source)
        if known is not None:
            return known
        _remove_stale(self._staging)
        copy, document_id = _copied(path, self._staging)
        return Staged(copy, document_id, kb, name, source)

    def store(self, staged: Staged, prepared: Prepared, made_by: EmbedderIdentity) -> Outcome:
        """Puts a document into the base, all of it or nothing; the copy becomes its file.

        Raises:
            IngestError: `embedder_changed`.
        """
        # The same bytes may have come in while these were read.
        known = self._settled(staged.document_id, staged.kb, staged.name, staged.source)
        if known is not None:
            return known
        held = self._store.member(staged.kb, staged.name)
        difference = None if held is None else self._difference(held, prepared)
        self._changes.add(prepared, staged.kb, staged.name, made_by, staged.copy, staged.source)
        if held is None:
            return Outcome(staged.document_id, "ok")
        return Outcome(staged.document_id, "replaced", difference=difference, former_name=staged.name)

    def _settled(self, document_id: str, kb: str, name: str, source: str | None) -> Outcome | None:
        """Makes a document that is stored already a member of `kb` under `name`; None where it has to be read."""
        held = self._store.member(kb, name)
        if held == document_id:
            if source is not None and self._store.source_of(kb, document_id) != source:
                self._changes.set_source(kb, document_id, source)
            return Outcome(document_id, "unchanged")
        earlier_name = self._store.name_of(kb, document_id)
        if earlier_name is not None and held is None:
            earlier = self._store.source_of(kb, document_id)
            if source is None or earlier is None or os.path.lexists(earlier):
                return Outcome(document_id, "duplicate", earlier_name)
            self._changes.rename(kb, document_id, name, source)
            return Outcome(document_id, "ok", earlier_name, moved=True, former_name=earlier_name)
        if self._changes.join(kb, document_id, name, source):
            if held is None:
                return Outcome(document_id, "ok", earlier_name)
            return Outcome(document_id, "replaced", earlier_name, former_name=name)
        return None

    def _difference(self, held: str, prepared: Prepared) -> Difference:
        budget = self._settings.section_tokens
        old, paragraphs = self._store.document(held), self._store.paragraphs(held)
        new = Version(prepared.document, prepared.paragraphs, prepared.sections)
        return compare(Version(old, paragraphs, split_sections(old, paragraphs, budget)), new)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()[:16]
    except OSError as error:
        raise _unreadable(path, error) from error


def _copied(path: Path, staging: Path) -> tuple[Path, str]:
    """A copy, and the document id of its bytes: the file may have changed since it was looked at."""
    descriptor, temporary = tempfile.mkstemp(dir=staging)
    copy = Path(temporary)
    digest = hashlib.sha256()
    try:
        with os.fdopen(descriptor, "wb") as target, path.open("rb") as source:
            while block := source.read(1 << 20):
                digest.update(block)
                target.write(block)
            target.flush()
            os.fsync(target.fileno())
    except OSError as error:
        copy.unlink(missing_ok=True)
        raise _unreadable(path, error) from error
    return copy, digest.hexdigest()[:16]


def _unreadable(path: Path, error: OSError) -> IngestError:
    return IngestError("not_found", f"{path} can't be copied ({error.strerror}): check rights and space.")


def _remove_stale(staging: Path) -> None:
    """Clears what a crash left behind."""
    for path in staging.iterdir():
        try:
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()
        except FileNotFoundError:
            continue
