"""Decides a file's path into a base: copy, read, split, embed, store. Only the last step touches the base."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from ingest.changes import Changes, Prepared
from ingest.document import Document, IngestError
from ingest.embed import Embedder, Vectors
from ingest.embed_new import embed_new
from ingest.identity import EmbedderIdentity
from ingest.paragraphs import split_paragraphs
from ingest.passages import split_passages
from ingest.read import Progress, check_size, read
from ingest.sections import paragraph_tokens
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


@dataclass(frozen=True)
class Outcome:
    """What `add_file` did: `earlier_name` is set where the same bytes were there under it."""

    document_id: str
    status: AddStatus
    earlier_name: str | None = None


def add_file(
    path: Path,
    kb: str,
    name: str,
    store: Store,
    changes: Changes,
    staging: Path,
    load_embedder: Callable[[str], Embedder],
    settings: IngestSettings,
    progress: Progress | None,
) -> Outcome:
    """Takes a file into `kb` under `name`. The embedder (seconds) is loaded only where there is a text to embed.

    Args:
        load_embedder: Gives the one for a text, which may be the base's first.

    Raises:
        IngestError: Where it can't be read; the base is then as it was.
    """
    check_size(path, settings)
    with _staged(path, staging) as (copy, document_id):
        held = store.member(kb, name)
        earlier_name = store.name_of(kb, document_id)
        if held == document_id:
            return Outcome(document_id, "unchanged")
        if earlier_name is not None and held is None:
            return Outcome(document_id, "duplicate", earlier_name)
        # Stored already, in this base under another name or in another base: nothing to read again.
        if not changes.join(kb, document_id, name):
            document = read(copy, settings, progress, name=name)
            embedder = load_embedder(document.text)
            identity = EmbedderIdentity(embedder.name, embedder.dimension)
            changes.check_identity(identity)
            known = {} if held is None else store.vectors(held)
            prepared = prepare(document, embedder, settings, _suffix(name), copy.stat().st_size, progress, known)
            _report(progress, "store", 0, 1)
            changes.add(prepared, kb, name, identity, copy)
            _report(progress, "store", 1, 1)
        return Outcome(document_id, "ok" if held is None else "replaced", earlier_name)


def prepare(
    document: Document,
    embedder: Embedder,
    settings: IngestSettings,
    suffix: str,
    num_bytes: int,
    progress: Progress | None,
    known: Mapping[str, Vectors] | None = None,
) -> Prepared:
    """Splits and embeds a document; nothing is stored.

    Args:
        known: Vectors that this embedder made, by text: of what the document replaces.
    """
    _report(progress, "split", 0, 1)
    paragraphs = split_paragraphs(document)
    passages = split_passages(document, embedder, settings.passage_tokens)
    _report(progress, "split", 1, 1)
    vectors = embed_new(
        embedder,
        [document.text[passage.start : passage.end] for passage in passages],
        known or {},
        lambda done, total: _report(progress, "embed", done, total),
    )
    num_tokens = sum(paragraph_tokens(document, paragraphs))
    return Prepared(document, paragraphs, passages, vectors, num_tokens, suffix, num_bytes)


@contextmanager
def _staged(path: Path, staging: Path) -> Iterator[tuple[Path, str]]:
    """A copy that nobody changes while it is read, and the document id of its bytes."""
    _remove_stale(staging)
    descriptor, temporary = tempfile.mkstemp(dir=staging)
    copy = Path(temporary)
    digest = hashlib.sha256()
    try:
        try:
            with os.fdopen(descriptor, "wb") as target, path.open("rb") as source:
                while block := source.read(1 << 20):
                    digest.update(block)
                    target.write(block)
                target.flush()
                os.fsync(target.fileno())
        except OSError as error:
            raise IngestError(
                "not_found", f"{path} can't be copied ({error.strerror}): check rights and space."
            ) from error
        yield copy, digest.hexdigest()[:16]
    finally:
        copy.unlink(missing_ok=True)


def _remove_stale(staging: Path) -> None:
    """Clears what a crash left behind."""
    for path in staging.iterdir():
        try:
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()
        except FileNotFoundError:
            continue


def _suffix(name: str) -> str:
    """The name's ending as the kept file's, where it is a plain one."""
    suffix = PurePath(name).suffix.lower()
    return suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else ""


def _report(progress: Progress | None, stage: str, done: int, total: int) -> None:
    if progress:
        progress(stage, done, total)
