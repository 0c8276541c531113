"""Decides which passages answer a question best: by meaning (vectors) and by words (BM25), added up.

Rights come first: passages outside the asked bases and documents are never ranked. A passage that neither shares
enough of the question's words nor is near it in meaning is no evidence and is left out, so nothing may be found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingest.concepts import by_concepts
from ingest.dictionary import Concept
from ingest.embed import Embedder
from ingest.fusion import WORDS_FLOOR, Found, by_language, take_turns, turns
from ingest.identity import check_identity, identity
from ingest.index import IndexHome
from ingest.language import language_of
from ingest.questions import Questions
from ingest.recent import RecentHits
from ingest.roster import Rosters
from ingest.scope import Scope, Scopes
from ingest.vectors import NearestPassages
from ingest.word_search import shares_of_words

POOL = 200


@dataclass(frozen=True)
class Hit:
    """A passage found.

    Attributes:
        passage: Its number in its document.
        page: The sheet, counted from 1; `label` is what is printed on it, None where the file names none.
        start, end: Its span in the document's text, in characters.
        score: 0 to 1, comparable between searches of one base with one wording.
        dense_score: Cosine with the question; 0 where the embedder does not read the question's script.
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


class Lookup:
    """What a search looks things up in: copies in memory that follow the store, the last questions' vectors and hits.

    Safe for several threads.
    """

    def __init__(self, home: IndexHome) -> None:
        self.rosters = Rosters()
        self.scopes = Scopes()
        self.nearest = NearestPassages(home)
        self.questions = Questions()
        self.recent = RecentHits()


def search(
    connection: sqlite3.Connection,
    lookup: Lookup,
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
    roster = lookup.rosters.of(connection)
    allowed = lookup.scopes.allowed(connection, scope, roster)
    # Until the first vector is there, no model has to be loaded for what only words can find.
    has_vectors = any_vector(connection)
    texts = (question, *(wording for wording in also if wording.strip()))
    shares = [shares_of_words(connection, text, roster) for text in texts]
    scales = [embedder.scale(text) if has_vectors else None for text in texts]
    vectors = [
        lookup.questions.vector(embedder, text) if scale else None for text, scale in zip(texts, scales, strict=True)
    ]
    # Words and meaning of each wording have a say in what any other finds.
    candidates = dict.fromkeys(id_ for of_text in shares for id_ in of_text.best(pool, allowed))
    for vector in vectors:
        if vector is not None:
            candidates |= dict.fromkeys(lookup.nearest.search(connection, kept, roster, vector, pool, allowed))
    found: list[Found] = []
    measured: list[Mapping[int, float]] = []
    for text, of_text, scale, vector in zip(texts, shares, scales, vectors, strict=True):
        words = of_text.of(candidates)
        if scale is None or vector is None:
            measured.append({})
            found.append(Found(language_of(text), {}, words, None))
        else:
            measured.append(lookup.nearest.cosines(connection, kept, roster, vector, candidates))
            cosines = scale.read_all(measured[-1])
            floor, alike = scale.read(scale.evidence), scale.read(scale.alike)
            found.append(Found(language_of(text), _guessed(cosines, words) | cosines, words, floor, alike))
    own, together = found[0].language, dict[str | None, float]()
    for language, asked in (concepts or {}).items():
        words = by_concepts(connection, asked, allowed)
        together[language] = max(words.values(), default=0.0)
        if language != own:
            measured.append({})
            found.append(Found(language, {}, words, None))
    hits: list[Hit] = []
    lists = by_language(found)
    in_turn = list(lists.values())
    for id_, by in take_turns(in_turn, turns(list(lists), together, is_sure=found[0].is_sure)):
        row = connection.execute(
            """SELECT p.document_id, p.number, p.page, s.label, p.start, p."end",
                   substr(d.text, p.start + 1, p."end" - p.start) AS text
               FROM passages p JOIN documents d ON d.id = p.document_id
               JOIN pages s ON s.document_id = p.document_id AND s.number = p.page WHERE p.id = ?""",
            (id_,),
        ).fetchone()
        if row is not None:
            number = max(range(len(found)), key=lambda number: found[number].evidence.get(id_, 0.0))
            one = found[number]
            rank = list(one.words).index(id_) + 1 if id_ in one.words else None
            cosine, share = measured[number].get(id_, 0.0), one.words.get(id_, 0.0)
            hits.append(_hit(row, in_turn[by][id_], cosine, rank, share))
        if len(hits) == k:
            break
    return tuple(hits)


def any_vector(connection: sqlite3.Connection) -> bool:
    """Whether any passage is embedded yet."""
    return connection.execute("SELECT 1 FROM passages WHERE vector IS NOT NULL LIMIT 1").fetchone() is not None


def _guessed(cosines: Mapping[int, float], words: Mapping[int, float]) -> dict[int, float]:
    """For passages that share enough words and are not embedded yet: the best cosine of those that share fewer.

    So none of those stands before it only because its turn to be embedded came first.
    """
    waiting = {id_: share for id_, share in words.items() if share >= WORDS_FLOOR and id_ not in cosines}
    return {
        id_: max((cosine for other, cosine in cosines.items() if words.get(other, 0.0) <= share), default=0.0)
        for id_, share in waiting.items()
    }


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
