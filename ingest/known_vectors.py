"""Decides which passages need no embedding: those whose text has a vector already, known by its hash.

A passage of any stored document counts, and so does what a document has replaced: it belongs to its successor, goes
when that goes, and makes an edit that is taken back cost nothing. Nothing is kept of a document that was removed.
"""

from __future__ import annotations

import sqlite3

from ingest.identity import EmbedderIdentity, generation

MOST_FORMER = 20_000
"""Vectors of replaced texts that are kept in a base, those used last: about 35 MB."""


def keep_vectors(connection: sqlite3.Connection, replaced: str, successor: str, made_by: EmbedderIdentity) -> None:
    """Keeps the vectors of a document that is about to go, and those that it kept, with the one that replaces it."""
    now = generation(connection)
    connection.execute(
        """INSERT OR IGNORE INTO former_vectors (text_hash, document_id, embedder, vector, used)
           SELECT text_hash, ?, embedder, vector, used FROM former_vectors WHERE document_id = ?""",
        (successor, replaced),
    )
    connection.execute(
        """INSERT OR REPLACE INTO former_vectors (text_hash, document_id, embedder, vector, used)
           SELECT text_hash, ?, ?, vector, ? FROM passages WHERE document_id = ? AND vector IS NOT NULL""",
        (successor, _words(made_by), now, replaced),
    )


def fill_in(connection: sqlite3.Connection, document_id: str, made_by: EmbedderIdentity) -> None:
    """Gives the document's passages the vectors that are known; drops what is kept over the bound."""
    connection.execute(
        """UPDATE passages SET vector = coalesce(
               (SELECT o.vector FROM passages o
                WHERE o.text_hash = passages.text_hash AND o.vector IS NOT NULL LIMIT 1),
               (SELECT f.vector FROM former_vectors f
                WHERE f.text_hash = passages.text_hash AND f.embedder = ? LIMIT 1))
           WHERE document_id = ? AND vector IS NULL""",
        (_words(made_by), document_id),
    )
    connection.execute(
        """UPDATE former_vectors SET used = ? WHERE text_hash IN (
               SELECT text_hash FROM passages WHERE document_id = ?)""",
        (generation(connection), document_id),
    )
    too_many = connection.execute("SELECT count(*) FROM former_vectors").fetchone()[0] - MOST_FORMER
    if too_many > 0:
        connection.execute(
            """DELETE FROM former_vectors WHERE (text_hash, document_id) IN (
                   SELECT text_hash, document_id FROM former_vectors ORDER BY used LIMIT ?)""",
            (too_many,),
        )


def _words(made_by: EmbedderIdentity) -> str:
    return f"{made_by.name}/{made_by.dimension}"
