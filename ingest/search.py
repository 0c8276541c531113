"""Decides which passages answer a question best: meaning (vectors) and words (BM25), fused by rank.

Rights come first: passages outside the asked bases and documents are never ranked. A passage that shares no telling
word with the question and is not near it in meaning is no evidence and is left out, so nothing may be found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ingest.embed import Embedder
from ingest.index import Ids
from ingest.keywords import question_words
from ingest.store import check_identity, identity
from ingest.vectors import NearestPassages

# Reciprocal rank fusion; measured on English and Chinese documents, see tests/ingest/test_retrieval.py.
RANK_OFFSET = 10.0
DENSE_WEIGHT, KEYWORD_WEIGHT = 0.6, 1.0
POOL = 60


@dataclass(frozen=True)
class Hit:
    """A passage found.

    Attributes:
        passage: Its number in its document.
        page: The sheet, counted from 1; `label` is what is printed on it, None where the file names none.
        start, end: Its span in the document's text, in characters.
        score: 0 to 1; comparable within one search only.
        dense_score: Cosine with the question; None where it was not among the nearest.
        keyword_rank: Its place by words alone, counted from 1; None where it shares no telling word.
    """

    doc_id: str
    passage: int
    page: int
    label: str | None
    start: int
    end: int
    score: float
    text: str
    dense_score: float | None
    keyword_rank: int | None


@dataclass(frozen=True)
class Scope:
    """Where to look. None: everywhere."""

    kb: str | None
    doc_ids: tuple[str, ...] | None


def search(
    connection: sqlite3.Connection, nearest: NearestPassages, embedder: Embedder, question: str, scope: Scope, k: int
) -> tuple[Hit, ...]:
    """The best `k` passages, best first. `connection` is in a transaction, so that all parts see one state.

    Raises:
        IngestError: `embedder_changed`.
    """
    kept = identity(connection)
    if kept is None or not question.strip():
        return ()
    check_identity(connection, type(kept)(embedder.name, embedder.dimension), bind=False)
    pool = max(POOL, 2 * k)
    dense = nearest.search(connection, kept, embedder.embed_question(question), pool, _allowed(connection, scope))
    words = _by_keywords(connection, question, scope, pool)
    scores = fuse(dense, words, embedder.evidence_floor, DENSE_WEIGHT if embedder.reads(question) else 0.0)
    cosines = dict(dense)
    ranks = {id_: rank for rank, id_ in enumerate(words, 1)}
    hits = []
    for id_, score in sorted(scores.items(), key=lambda item: (-item[1], item[0])):
        row = connection.execute(
            """SELECT p.document_id, p.number, p.page, s.label, p.start, p."end",
                   substr(d.text, p.start + 1, p."end" - p.start) AS text
               FROM passages p JOIN documents d ON d.id = p.document_id
               JOIN pages s ON s.document_id = p.document_id AND s.number = p.page WHERE p.id = ?""",
            (id_,),
        ).fetchone()
        if row is not None:
            hits.append(Hit(*row[:6], score, row["text"], cosines.get(id_), ranks.get(id_)))
        if len(hits) == k:
            break
    return tuple(hits)


def fuse(
    dense: Sequence[tuple[int, float]], words: Sequence[int], evidence_floor: float, dense_weight: float
) -> dict[int, float]:
    """Scores by passage id, 0 to 1. `dense` are (id, cosine) nearest first, `words` ids best first."""
    matched = set(words)
    scores: dict[int, float] = {}
    most = (dense_weight + KEYWORD_WEIGHT) / (RANK_OFFSET + 1)
    for rank, id_ in enumerate(words, 1):
        scores[id_] = KEYWORD_WEIGHT / (RANK_OFFSET + rank) / most
    for rank, (id_, cosine) in enumerate(dense, 1):
        if id_ in matched or cosine >= evidence_floor:
            scores[id_] = scores.get(id_, 0.0) + dense_weight / (RANK_OFFSET + rank) / most
    return {id_: score for id_, score in scores.items() if score > 0.0}


_SCOPED = """(? IS NULL OR EXISTS (SELECT 1 FROM members m WHERE m.document_id = p.document_id AND m.kb = ?))"""


def _scoped(scope: Scope) -> tuple[str, list[str | None]]:
    condition, values = _SCOPED, [scope.kb, scope.kb]
    if scope.doc_ids is not None:
        condition += f" AND p.document_id IN ({','.join('?' * len(scope.doc_ids))})"
        values += scope.doc_ids
    return condition, values


def _allowed(connection: sqlite3.Connection, scope: Scope) -> Ids | None:
    if scope.kb is None and scope.doc_ids is None:
        return None
    condition, values = _scoped(scope)
    rows = connection.execute(f"SELECT p.id FROM passages p WHERE {condition}", values)
    return np.array([row[0] for row in rows], dtype=np.int64)


def _by_keywords(connection: sqlite3.Connection, question: str, scope: Scope, limit: int) -> list[int]:
    words = question_words(question)
    if not words:
        return []
    condition, values = _scoped(scope)
    rows = connection.execute(
        f"""SELECT p.id FROM keywords JOIN passages p ON p.id = keywords.rowid
            WHERE keywords MATCH ? AND {condition} ORDER BY bm25(keywords), p.id LIMIT ?""",
        (" OR ".join(f'"{word}"' for word in words), *values, limit),
    )
    return [row[0] for row in rows]
