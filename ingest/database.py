"""Decides how the one SQLite file is opened and shared: many processes and threads read, one writes at a time."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4
from weakref import WeakSet

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from ingest.document import IngestError

SCHEMA_VERSION = 5
KEYWORDS_KIND = "fts5(words, tokenize = 'porter ascii')"
_BUSY_SECONDS = 60.0
# A passage may wait for its vector, and is known by its text.
_PASSAGES = """CREATE TABLE passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    number INTEGER NOT NULL, page INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    text_hash BLOB NOT NULL, vector BLOB, UNIQUE (document_id, number));
CREATE INDEX passages_by_text ON passages(text_hash);
CREATE INDEX passages_to_embed ON passages(document_id, id) WHERE vector IS NULL;
CREATE TABLE former_vectors (
    text_hash BLOB NOT NULL, document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    embedder TEXT NOT NULL, vector BLOB NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (text_hash, document_id)) WITHOUT ROWID;
CREATE INDEX former_vectors_by_document ON former_vectors(document_id);
CREATE INDEX former_vectors_by_use ON former_vectors(used)"""
# Tags go with their document's place in a base.
_TAGS = """CREATE TABLE IF NOT EXISTS tags (
    kb TEXT NOT NULL, document_id TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (kb, document_id, tag),
    FOREIGN KEY (kb, document_id) REFERENCES members(kb, document_id) ON DELETE CASCADE) WITHOUT ROWID"""
# What a citation of a document leads to that is there no more.
_REPLACED = """CREATE TABLE IF NOT EXISTS replaced (
    kb TEXT NOT NULL, document_id TEXT NOT NULL, name TEXT NOT NULL, replaced_at TEXT NOT NULL,
    PRIMARY KEY (kb, document_id)) WITHOUT ROWID"""
_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, kind TEXT NOT NULL, suffix TEXT NOT NULL, num_bytes INTEGER NOT NULL,
    text TEXT NOT NULL, num_tokens INTEGER NOT NULL, headings TEXT NOT NULL, warnings TEXT NOT NULL);
CREATE TABLE members (
    kb TEXT NOT NULL, document_id TEXT NOT NULL REFERENCES documents(id), name TEXT NOT NULL, added_at TEXT NOT NULL,
    source BLOB, PRIMARY KEY (kb, document_id), UNIQUE (kb, name));
CREATE INDEX members_by_document ON members(document_id);
CREATE TABLE pages (
    document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE, number INTEGER NOT NULL, label TEXT,
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, origin TEXT NOT NULL DEFAULT 'text',
    PRIMARY KEY (document_id, number)) WITHOUT ROWID;
CREATE TABLE paragraphs (
    document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE, number INTEGER NOT NULL,
    page INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    PRIMARY KEY (document_id, number)) WITHOUT ROWID;
CREATE TABLE sections (
    document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE, budget INTEGER NOT NULL,
    number INTEGER NOT NULL, title TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    first_page INTEGER NOT NULL, last_page INTEGER NOT NULL, first_paragraph INTEGER NOT NULL,
    last_paragraph INTEGER NOT NULL, num_tokens INTEGER NOT NULL,
    PRIMARY KEY (document_id, budget, number)) WITHOUT ROWID;
{_PASSAGES};
CREATE VIRTUAL TABLE keywords USING {KEYWORDS_KIND};
{_TAGS};
{_REPLACED};
"""
# What a base made by an earlier program lacks, by the version that it has.
_UPGRADES = {
    1: "ALTER TABLE pages ADD COLUMN origin TEXT NOT NULL DEFAULT 'text'",
    # Ids go on where they were: none is ever used again.
    2: f"""ALTER TABLE passages RENAME TO passages_before;
{_PASSAGES};
INSERT INTO passages SELECT p.id, document_id, number, page, start, "end",
    text_hash(substr(d.text, start + 1, "end" - start)), vector
    FROM passages_before p JOIN documents d ON d.id = document_id;
INSERT INTO sqlite_sequence (name, seq) SELECT 'passages', 0 WHERE NOT EXISTS (
    SELECT 1 FROM sqlite_sequence WHERE name = 'passages');
UPDATE sqlite_sequence SET seq = max(seq, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'passages_before'), 0))
    WHERE name = 'passages';
DROP TABLE passages_before;
ALTER TABLE members ADD COLUMN source BLOB""",
    3: _TAGS,
    4: _REPLACED,
}


def text_hash(text: str) -> bytes:
    """What a passage's vector is known by, whatever document it stands in: 16 bytes."""
    return hashlib.sha256(text.encode()).digest()[:16]


class _Held:
    """One thread's connection; it ends with the thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


class Database:
    """A connection a thread, all with the same settings.

    A page's threads come and go: what each leaves behind, files and memory, would stay as long as the page.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._opened: WeakSet[_Held] = WeakSet()
        self._lock = threading.Lock()
        self._prepare()

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection, in autocommit."""
        held: _Held | None = getattr(self._local, "held", None)
        if held is None:
            # Closed by `close` from another thread, hence no thread check; each thread still uses only its own.
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            held = self._local.held = _Held(connection)
            with self._lock:
                self._opened.add(held)
        return held.connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction with the write lock held from its start: all of it is stored, or nothing."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One transaction that sees a single state of the base throughout."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        connection = self.connection
        connection.execute(begin)
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def close(self) -> None:
        """Closes all threads' connections; the object can't be used afterwards."""
        with self._lock:
            for held in list(self._opened):
                held.connection.close()
            self._opened.clear()

    def _prepare(self) -> None:
        try:
            self._write_ahead()
            if self._version() == 0:
                with self.writing() as connection:
                    # Another process may have made the tables while this one waited for the lock.
                    if self._version() == 0:
                        for statement in _SCHEMA.split(";\n"):
                            connection.execute(statement)
                        connection.execute("INSERT INTO meta VALUES ('generation', '0'), ('base', ?)", (uuid4().hex,))
                        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            while self._version() in _UPGRADES:
                with self.writing() as connection:
                    # Looked up again under the lock, as above.
                    if (version := self._version()) in _UPGRADES:
                        connection.create_function("text_hash", 1, text_hash, deterministic=True)
                        for statement in _UPGRADES[version].split(";\n"):
                            connection.execute(statement)
                        connection.execute(f"PRAGMA user_version = {version + 1}")
        except sqlite3.OperationalError as error:
            raise IngestError(
                "store_unusable",
                f"{self._path} can't be used ({error}): check the rights and the space in its folder.",
            ) from error
        except sqlite3.DatabaseError as error:
            raise IngestError(
                "store_damaged", f"{self._path} can't be used ({error}): restore it from a backup or move it away."
            ) from error
        if self._version() != SCHEMA_VERSION:
            raise IngestError(
                "store_version",
                f"{self._path} has format {self._version()}, this program reads {SCHEMA_VERSION}: use the program that "
                "made it, or add the documents to a new home.",
            )

    def _write_ahead(self) -> None:
        """SQLite refuses the change at once while another process writes, however long a connection waits else."""
        Retrying(
            retry=retry_if_exception(
                lambda error: (
                    isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                )
            ),
            stop=stop_after_delay(_BUSY_SECONDS),
            wait=wait_fixed(0.02),
            reraise=True,
        )(self.connection.execute, "PRAGMA journal_mode = WAL")

    def _version(self) -> int:
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])
