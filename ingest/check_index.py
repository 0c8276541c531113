"""Decides what must hold between the stored passages and what they are found by: keywords, vectors, the FAISS file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ingest.document import Passage
from ingest.faults import Fault
from ingest.identity import base_id, generation, identity
from ingest.index import VectorIndex
from ingest.index_file import load_index
from ingest.keywords import index_words

_UNIT_TOLERANCE = 1e-3
_SAMPLED_VECTORS = 2_000


def wrong_passages(connection: sqlite3.Connection, document_id: str, text: str) -> Iterator[tuple[str, str, Passage]]:
    """The passages of a document with a vector or keywords that can't be theirs: (code, what is wrong, passage).

    A passage without a vector waits for one, and is found by its words.
    """
    made_with = identity(connection)
    rows = connection.execute(
        """SELECT p.number, p.page, p.start, p."end", p.vector, k.words
           FROM passages p LEFT JOIN keywords k ON k.rowid = p.id WHERE p.document_id = ? ORDER BY p.number""",
        (document_id,),
    )
    for number, page, start, end, vector, words in rows:
        passage = Passage(number, page, start, end)
        expected = " ".join(index_words(text[start:end]))
        if words != expected:
            yield "keywords_differ", "is not in the keyword index with its own words", passage
        if vector is None:
            continue
        if made_with is None or len(vector) != 4 * made_with.dimension:
            yield "vector_damaged", f"has a vector of {len(vector)} bytes, which is not its embedder's", passage
            continue
        length = float(np.linalg.norm(np.frombuffer(vector, dtype="<f4")))
        # A text without a word has no direction in an embedder of words.
        if not abs(length - 1) <= _UNIT_TOLERANCE and (length or expected):
            yield "vector_damaged", f"has a vector of length {length:.3g} instead of 1", passage


def stray_keywords(connection: sqlite3.Connection) -> int:
    """How many rows of the keyword index belong to no passage."""
    found = connection.execute("SELECT count(*) FROM keywords WHERE rowid NOT IN (SELECT id FROM passages)")
    return int(found.fetchone()[0])


def are_keywords_whole(connection: sqlite3.Connection) -> bool:
    """Whether the keyword index finds what its rows hold; to be asked under the write lock."""
    try:
        connection.execute("INSERT INTO keywords(keywords) VALUES ('integrity-check')")
    except sqlite3.DatabaseError:
        return False
    return True


def index_fault(path: Path, connection: sqlite3.Connection, index: VectorIndex | None) -> Fault | None:
    """What is wrong with the FAISS file. One that is behind the store is sound: the next search brings it up.

    Args:
        connection: In a transaction that began after `index` was loaded from `path`.
    """
    if index is None:
        return _made_anew(path, "index_damaged", "The vector index can't be read") if path.exists() else None
    state, made_with = index.state, identity(connection)
    if state.base != base_id(connection):
        return _made_anew(path, "index_foreign", "The vector index belongs to another home")
    if state.generation > generation(connection):
        return _made_anew(path, "index_ahead", "The vector index is of a later state than the store")
    if made_with is None or (state.embedder, state.dimension) != (made_with.name, made_with.dimension):
        if state.generation == generation(connection):
            return _made_anew(path, "index_foreign", f"The vector index was made with the embedder {state.embedder}")
        return None
    stored = {row[0] for row in connection.execute("SELECT id FROM passages WHERE vector IS NOT NULL")}
    held = {int(id_) for id_ in index.ids}
    if state.generation == generation(connection) and held != stored:
        return _made_anew(
            path,
            "index_differs",
            f"The vector index lacks {len(stored - held)} passages and holds {len(held - stored)} that are not there",
        )
    common = sorted(held & stored)
    sampled = np.array(common[:: max(1, len(common) // _SAMPLED_VECTORS)], dtype=np.int64)
    for id_, vector in zip(*index.vectors(sampled), strict=True):
        kept = connection.execute("SELECT vector FROM passages WHERE id = ?", (int(id_),)).fetchone()[0]
        if not np.array_equal(vector, np.frombuffer(kept, dtype="<f4")):
            return _made_anew(path, "index_differs", "The vector index holds other vectors than the store")
    return None


def load(path: Path) -> VectorIndex | None:
    """The FAISS file as it is; None where there is none, or it is damaged."""
    return load_index(path) if path.exists() else None


def _made_anew(path: Path, code: str, what: str) -> Fault:
    return Fault(code, f"{what}: it is made anew from the store.", mend=lambda: path.unlink(missing_ok=True))
