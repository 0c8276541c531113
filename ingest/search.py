"""Decides which passages answer a question best: by meaning (vectors) and by words (BM25), added up.

Rights come first: passages outside the asked bases and documents are never ranked. A passage that neither shares
enough of the question's words nor is near it in meaning is no evidence and is left out, so nothing may be found.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.embed import Embedder
from ingest.identity import check_identity, identity
from ingest.index import Ids
from ingest.keywords import is_single, question_words
from ingest.vectors import NearestPassages

# How much meaning counts beside words. Measured over 166 questions, recall at 5 of facts / of everyday rewordings:
# words alone 0.98 / 0.36, meaning alone 0.63 / 0.50, added up 0.99 / 0.55. Reciprocal ranks find as many within 5, but
# 7 % fewer facts at rank 1: they do not see that a match of words is a strong one.
DENSE_WEIGHT = 1.0
# The least share of a question's words that makes a passage evidence by itself: where meaning can tell as well, and
# where it can't because the embedder does not read the question's script.
WORDS_FLOOR, WORDS_ONLY_FLOOR = 0.12, 0.02
POOL = 200
_MOST_WORDS = 64
# BM25's k1 in SQLite; a word's weight comes near to (k1 + 1) times its rarity, never above.
_BM25_K1 = 1.2
_UNSEEN_PASSAGES = 20


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


@dataclass(frozen=True)
class _Found:
    """What one query found: everything by passage id, `words` best first."""

    scores: dict[int, float]
    cosines: dict[int, float]
    words: dict[int, float]


def search(
    connection: sqlite3.Connection,
    nearest: NearestPassages,
    embedder: Embedder,
    question: str,
    scope: Scope,
    k: int,
    also: Sequence[str] = (),
) -> tuple[Hit, ...]:
    """The best `k` passages, best first. `connection` is in a transaction, so that all parts see one state.

    Args:
        also: The question in other words or languages. What one of them finds stands among what the question finds, see
            `alternate`; cosine, place by words and score of a hit are those of the wording that it stands there for.

    Raises:
        IngestError: `embedder_changed`.
    """
    kept = identity(connection)
    if kept is None or not question.strip():
        return ()
    check_identity(connection, type(kept)(embedder.name, embedder.dimension), bind=False)
    pool = max(POOL, 2 * k)
    allowed = _allowed(connection, scope)
    # Until the first vector is there, no model has to be loaded for what only words can find.
    has_vectors = connection.execute("SELECT 1 FROM passages WHERE vector IS NOT NULL LIMIT 1").fetchone() is not None
    found: list[_Found] = []
    for text in (question, *(wording for wording in also if wording.strip())):
        words = _by_words(connection, text, scope, pool)
        cosines: dict[int, float] = {}
        if has_vectors:
            cosines = nearest.search(connection, kept, embedder.embed_question(text), pool, allowed, also=words)
        floor = embedder.evidence_floor if has_vectors and embedder.reads(text) else None
        found.append(_Found(add_up(_guessed(cosines, words) | cosines, words, floor), cosines, words))
    hits: list[Hit] = []
    for id_, by in alternate([one.scores for one in found]):
        row = connection.execute(
            """SELECT p.document_id, p.number, p.page, s.label, p.start, p."end",
                   substr(d.text, p.start + 1, p."end" - p.start) AS text
               FROM passages p JOIN documents d ON d.id = p.document_id
               JOIN pages s ON s.document_id = p.document_id AND s.number = p.page WHERE p.id = ?""",
            (id_,),
        ).fetchone()
        if row is not None:
            one = found[by]
            rank = list(one.words).index(id_) + 1 if id_ in one.words else None
            cosine, share = one.cosines.get(id_, 0.0), one.words.get(id_, 0.0)
            hits.append(_hit(row, one.scores[id_], cosine, rank, share))
        if len(hits) == k:
            break
    return tuple(hits)


def _guessed(cosines: Mapping[int, float], words: Mapping[int, float]) -> dict[int, float]:
    """For passages that share enough words and are not embedded yet: the best cosine of those that share fewer.

    So none of those stands before it only because its turn to be embedded came first.
    """
    waiting = {id_: share for id_, share in words.items() if share >= WORDS_FLOOR and id_ not in cosines}
    return {
        id_: max((cosine for other, cosine in cosines.items() if words.get(other, 0.0) <= share), default=0.0)
        for id_, share in waiting.items()
    }


def alternate(scores: Sequence[Mapping[int, float]]) -> list[tuple[int, int]]:
    """Passages in order, each with the number of the wording that it stands there for.

    The wordings take turns, each with its best that is not there yet; the question itself is the first. So the best of
    what it finds stays among the first, whatever the others find: scores in two languages can't be compared. Measured
    with a small model's translations: 134 of 134 facts within 5, ranked by the best score 133.
    """
    ranked = [iter(sorted(found.items(), key=lambda item: (-item[1], item[0]))) for found in scores]
    placed: dict[int, int] = {}
    open_ = dict(enumerate(ranked))
    while open_:
        for number, one in list(open_.items()):
            id_ = next((id_ for id_, _ in one if id_ not in placed), None)
            if id_ is None:
                del open_[number]
            else:
                placed[id_] = number
    return list(placed.items())


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


def add_up(cosines: Mapping[int, float], words: Mapping[int, float], evidence_floor: float | None) -> dict[int, float]:
    """Scores by passage id, 0 to 1, of what is evidence.

    Args:
        words: By passage id, the share of the question's words, 0 to 1.
        evidence_floor: The least cosine that makes a passage evidence; None where the embedder can't read the question,
            whose cosines then count nothing.
    """
    if evidence_floor is None:
        return {id_: share for id_, share in words.items() if share >= WORDS_ONLY_FLOOR}
    return {
        id_: (words.get(id_, 0.0) + DENSE_WEIGHT * max(0.0, cosines.get(id_, 0.0))) / (1.0 + DENSE_WEIGHT)
        for id_ in {**cosines, **words}
        if words.get(id_, 0.0) >= WORDS_FLOOR or cosines.get(id_, 0.0) >= evidence_floor
    }


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
        rarity = _rarity(total, having)
        most += rarity * (_BM25_K1 + 1)
        for id_, score in connection.execute(
            """SELECT rowid, -bm25(keywords) FROM keywords
               WHERE keywords MATCH ? AND rowid IN (SELECT value FROM json_each(?))""",
            (word, candidates),
        ):
            weights[id_] += rarity * score / _sqlite_rarity(total, having)
    shares = {id_: min(1.0, weight / most) for id_, weight in weights.items()}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _rarity(total: int, having: int) -> float:
    """BM25's weight of a word, as if the base had some passages more: a base of one document knows no common words."""
    return math.log(1 + (total - having + _UNSEEN_PASSAGES) / (having + 1))


def _sqlite_rarity(total: int, having: int) -> float:
    """What SQLite's bm25() multiplies with: next to nothing for a word in more than half of the passages."""
    return max(1e-6, math.log((total - having + 0.5) / (having + 0.5)))
