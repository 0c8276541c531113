"""Decides which passages answer a question best: by meaning (vectors) and by words (BM25), added up.

Rights come first: passages outside the asked bases and documents are never ranked. A passage that neither shares
enough of the question's words nor is near it in meaning is no evidence and is left out, so nothing may be found.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.bm25 import K1, as_shares, rarity, sqlite_rarity
from ingest.concepts import by_concepts
from ingest.dictionary import Concept
from ingest.embed import Embedder
from ingest.fusion import Found, by_language, take_turns, turns
from ingest.identity import check_identity, identity
from ingest.index import Ids
from ingest.keywords import is_single, question_words
from ingest.language import language_of
from ingest.vectors import NearestPassages

POOL = 200
_MOST_WORDS = 64


@dataclass(frozen=True)
class Hit:
    """A passage found.

    Attributes:
        passage: Its number in its document.
        page: The sheet, counted from 1; `label` is what is printed on it, None where the file names none.
        start, end: Its span in the document's text, in characters.
        score: 0 to 1, comparable between searches of one base with one wording.
        dense_score: Cosine with the question.
        keyword_rank: Its place by words alone, counted from 1; None where it shares no telling word.
        keyword_score: 0 to 1: BM25 over the most that the question's words could give.
    """

    doc_id: str
    passage: int
    page: int
    label: str | None
    start: int
    end: int
    score: float
    text: str
    dense_score: float
    keyword_rank: int | None
    keyword_score: float


@dataclass(frozen=True)
class Scope:
    """Where to look. None: everywhere."""

    kb: str | None
    doc_ids: tuple[str, ...] | None


def search(
    connection: sqlite3.Connection,
    nearest: NearestPassages,
    embedder: Embedder,
    question: str,
    scope: Scope,
    k: int,
    also: Sequence[str] = (),
    concepts: Mapping[str, Sequence[Concept]] | None = None,
) -> tuple[Hit, ...]:
    """The best `k` passages, best first. `connection` is in a transaction, so that all parts see one state.

    Args:
        also: The question in other words or languages: see `ingest.fusion`. Cosine, place by words and share of words
            of a hit are those of the wording that finds it best.
        concepts: What the question asks about, by the language of the words; its own language's tell how well the
            others do.

    Raises:
        IngestError: `embedder_changed`.
    """
    kept = identity(connection)
    if kept is None or not question.strip():
        return ()
    check_identity(connection, type(kept)(embedder.name, embedder.dimension), bind=False)
    pool = max(POOL, 2 * k)
    allowed = _allowed(connection, scope)
    texts = (question, *(wording for wording in also if wording.strip()))
    by_words = [_by_words(connection, text, scope, pool) for text in texts]
    # Each wording has a say in what any other finds.
    candidates = dict.fromkeys(id_ for words in by_words for id_ in words)
    found: list[Found] = []
    for text, words in zip(texts, by_words, strict=True):
        cosines = nearest.search(connection, kept, embedder.embed_question(text), pool, allowed, also=candidates)
        floor = embedder.evidence_floor if embedder.reads(text) else None
        found.append(Found(language_of(text), cosines, words, floor))
    own, together = found[0].language, dict[str | None, float]()
    for language, asked in (concepts or {}).items():
        words = by_concepts(connection, asked, *_scoped(scope))
        together[language] = max(words.values(), default=0.0)
        if language != own:
            found.append(Found(language, {}, words, None))
    hits: list[Hit] = []
    lists = by_language(found)
    in_turn = list(lists.values())
    for id_, by in take_turns(in_turn, turns(list(lists), together)):
        row = connection.execute(
            """SELECT p.document_id, p.number, p.page, s.label, p.start, p."end",
                   substr(d.text, p.start + 1, p."end" - p.start) AS text
               FROM passages p JOIN documents d ON d.id = p.document_id
               JOIN pages s ON s.document_id = p.document_id AND s.number = p.page WHERE p.id = ?""",
            (id_,),
        ).fetchone()
        if row is not None:
            one = max(found, key=lambda one: one.evidence.get(id_, 0.0))
            rank = list(one.words).index(id_) + 1 if id_ in one.words else None
            cosine, share = one.cosines.get(id_, 0.0), one.words.get(id_, 0.0)
            hits.append(_hit(row, in_turn[by][id_], cosine, rank, share))
        if len(hits) == k:
            break
    return tuple(hits)


def _hit(row: sqlite3.Row, score: float, cosine: float, rank: int | None, share: float) -> Hit:
    return Hit(
        row["document_id"],
        row["number"],
        row["page"],
        row["label"],
        row["start"],
        row["end"],
        score,
        row["text"],
        cosine,
        rank,
        share,
    )


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


def _by_words(connection: sqlite3.Connection, question: str, scope: Scope, limit: int) -> dict[int, float]:
    """The share of the question's words by passage id, best first."""
    words = [f'"{word}"{"*" * is_single(word)}' for word in question_words(question)[:_MOST_WORDS]]
    if not words:
        return {}
    condition, values = _scoped(scope)
    rows = connection.execute(
        f"""SELECT p.id FROM keywords JOIN passages p ON p.id = keywords.rowid
            WHERE keywords MATCH ? AND {condition} ORDER BY bm25(keywords), p.id LIMIT ?""",
        (" OR ".join(words), *values, limit),
    )
    weights = {row[0]: 0.0 for row in rows}
    candidates = json.dumps(list(weights))
    total = connection.execute("SELECT count(*) FROM passages").fetchone()[0]
    most = 0.0
    for word in words:
        having = connection.execute("SELECT count(*) FROM keywords WHERE keywords MATCH ?", (word,)).fetchone()[0]
        weight = rarity(total, having)
        most += weight * (K1 + 1)
        for id_, score in connection.execute(
            """SELECT rowid, -bm25(keywords) FROM keywords
               WHERE keywords MATCH ? AND rowid IN (SELECT value FROM json_each(?))""",
            (word, candidates),
        ):
            weights[id_] += weight * score / sqlite_rarity(total, having)
    return as_shares(weights, most)
