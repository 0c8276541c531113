"""Decides how all passages are made anew with another embedder while the old ones serve: aside, then in one step.

What is made lies in a file of its own, spans and vectors without a word of text, until one transaction puts it in place
of the old. A rebuild that was killed goes on where it was; documents that came meanwhile are taken along.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np

from ingest.changes import Changes, Cut
from ingest.database import Database
from ingest.document import IngestError, Passage
from ingest.embed import Embedder
from ingest.identity import EmbedderIdentity, base_id
from ingest.index import vectors_from_blobs
from ingest.passages import split_passages
from ingest.read import Progress
from ingest.settings import IngestSettings
from ingest.store import Store

FILE_NAME = "rebuild.sqlite3"
_BATCH = 64
_SCHEMA = """
CREATE TABLE IF NOT EXISTS made_for (what TEXT NOT NULL, run TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS documents (id TEXT PRIMARY KEY, sha256 TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS passages (
    document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE, number INTEGER NOT NULL,
    page INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, vector BLOB,
    PRIMARY KEY (document_id, number));
"""


@dataclass(frozen=True)
class MadeFor:
    """What the passages in the file are good for: one base, one embedder, one length."""

    base: str
    embedder: str
    dimension: int
    passage_tokens: int


def under_way(home: Path, connection: sqlite3.Connection) -> str | None:
    """The embedder of a rebuild that has begun and not ended (it may have been killed); None where there is none.

    `connection` is the base's.
    """
    if not (home / FILE_NAME).exists():
        return None
    try:
        with closing(sqlite3.connect(home / FILE_NAME)) as shadow:
            row = shadow.execute("SELECT what, run FROM made_for").fetchone()
    except sqlite3.Error:
        return None
    if row is None or row[1] == _last_run(connection):
        return None
    return MadeFor(**json.loads(row[0])).embedder


def rebuild(
    home: Path,
    database: Database,
    store: Store,
    changes: Changes,
    embedder: Embedder,
    settings: IngestSettings,
    progress: Progress | None,
) -> int:
    """Makes all passages anew and puts them in place; returns their number. `progress` counts passages.

    Raises:
        IngestError: `rebuild_running` where another process is at it.
    """
    with database.reading() as connection:
        base, last_run = base_id(connection), _last_run(connection)
    tokens = min(settings.passage_tokens or embedder.max_tokens, embedder.max_tokens)
    wanted = MadeFor(base, embedder.name, embedder.dimension, tokens)
    with _only_one(home), _opened(home / FILE_NAME, wanted, last_run) as shadow:
        run = shadow.execute("SELECT run FROM made_for").fetchone()[0]
        while True:
            _cut(shadow, store, embedder, settings)
            _embed(shadow, store, embedder, progress)
            identity = EmbedderIdentity(embedder.name, embedder.dimension)
            num_passages = changes.replace_passages(
                lambda document_id, text: _made(shadow, document_id, text, embedder.dimension), identity, run
            )
            if num_passages is not None:
                break
        shadow.close()
        discard(home)
    return num_passages


def discard(home: Path) -> None:
    """Removes what a rebuild has made so far."""
    for suffix in ("-wal", "-shm", ""):
        (home / f"{FILE_NAME}{suffix}").unlink(missing_ok=True)


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        with FileLock(home / "rebuild.lock", timeout=0):
            yield
    except Timeout:
        raise IngestError(
            "rebuild_running", f"Another process is rebuilding {home} already: wait until it has ended."
        ) from None


@contextmanager
def _opened(path: Path, wanted: MadeFor, last_run: str | None) -> Iterator[sqlite3.Connection]:
    """The file, begun anew where it is damaged, was made for something else, or is in place already."""
    try:
        shadow = _open(path)
        row = shadow.execute("SELECT what, run FROM made_for").fetchone()
        fits = row is not None and MadeFor(**json.loads(row[0])) == wanted and row[1] != last_run
    except (sqlite3.DatabaseError, ValueError, TypeError):
        fits = False
    if not fits:
        discard(path.parent)
        shadow = _open(path)
        shadow.execute("INSERT INTO made_for VALUES (?, ?)", (json.dumps(asdict(wanted)), uuid4().hex))
    with closing(shadow):
        yield shadow


def _open(path: Path) -> sqlite3.Connection:
    shadow = sqlite3.connect(path, isolation_level=None)
    shadow.execute("PRAGMA journal_mode = WAL")
    shadow.execute("PRAGMA foreign_keys = ON")
    shadow.execute("PRAGMA secure_delete = ON")
    shadow.executescript(_SCHEMA)
    return shadow


def _cut(shadow: sqlite3.Connection, store: Store, embedder: Embedder, settings: IngestSettings) -> None:
    """Brings the file in step with the stored documents: new ones are cut, those that have gone are dropped."""
    stored = {document.id for document in store.documents(None)}
    held = dict(shadow.execute("SELECT id, sha256 FROM documents").fetchall())
    for document_id in held.keys() - stored:
        shadow.execute("DELETE FROM documents WHERE id = ?", (document_id,))
    for document_id in sorted(stored):
        try:
            document = store.document(document_id)
        except IngestError:  # removed meanwhile
            continue
        digest = _digest(document.text)
        if held.get(document_id) == digest:
            continue
        passages = split_passages(document, embedder, settings.passage_tokens)
        shadow.execute("BEGIN")
        shadow.execute("DELETE FROM documents WHERE id = ?", (document_id,))
        shadow.execute("INSERT INTO documents VALUES (?, ?)", (document_id, digest))
        shadow.executemany(
            "INSERT INTO passages VALUES (?,?,?,?,?,NULL)", [(document_id, *astuple(passage)) for passage in passages]
        )
        shadow.execute("COMMIT")


def _embed(shadow: sqlite3.Connection, store: Store, embedder: Embedder, progress: Progress | None) -> None:
    """Gives each passage its vector, a batch a transaction."""
    total, done = shadow.execute("SELECT count(*), count(vector) FROM passages").fetchone()
    while rows := shadow.execute(
        'SELECT document_id, number, start, "end" FROM passages WHERE vector IS NULL ORDER BY 1, 2 LIMIT ?', (_BATCH,)
    ).fetchall():
        texts = {}
        for document_id in {row[0] for row in rows}:
            try:
                texts[document_id] = store.text(document_id)
            except IngestError:  # removed meanwhile
                shadow.execute("DELETE FROM documents WHERE id = ?", (document_id,))
        rows = [row for row in rows if row[0] in texts]
        vectors = embedder.embed_passages([texts[document_id][start:end] for document_id, _, start, end in rows])
        shadow.execute("BEGIN")
        shadow.executemany(
            "UPDATE passages SET vector = ? WHERE document_id = ? AND number = ?",
            [
                (vector.astype("<f4").tobytes(), document_id, number)
                for (document_id, number, _, _), vector in zip(rows, vectors, strict=True)
            ],
        )
        shadow.execute("COMMIT")
        done += len(rows)
        if progress:
            progress("embed", done, max(done, total))


def _made(shadow: sqlite3.Connection, document_id: str, text: str, dimension: int) -> Cut | None:
    """The passages of a document; None where they were not made of this text."""
    row = shadow.execute("SELECT sha256 FROM documents WHERE id = ?", (document_id,)).fetchone()
    if row is None or row[0] != _digest(text):
        return None
    rows = shadow.execute(
        'SELECT number, page, start, "end", vector FROM passages WHERE document_id = ? ORDER BY 1', (document_id,)
    ).fetchall()
    if any(row[4] is None for row in rows):
        return None
    vectors = vectors_from_blobs([row[4] for row in rows], dimension) if rows else np.zeros((0, dimension), "<f4")
    return [Passage(*row[:4]) for row in rows], vectors


def _last_run(connection: sqlite3.Connection) -> str | None:
    """The rebuild whose passages are in place: a crash may have left its file."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'rebuilt'").fetchone()
    return None if row is None else str(row[0])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
