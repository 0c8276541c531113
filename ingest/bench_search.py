"""Decides how a search is measured: on an invented base, in a process of its own on one core, part by part."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np

from ingest.changes import Changes, Prepared
from ingest.corpus import Corpus
from ingest.database import Database
from ingest.embed import Vectors, open_embedder
from ingest.identity import EmbedderIdentity, next_generation
from ingest.index import open_home
from ingest.invented import DIMENSION, InventedBase, InventedEmbedder, Question
from ingest.roster import Rosters
from ingest.scope import Filters
from ingest.settings import IngestSettings
from ingest.vectors import NearestPassages
from ingest.word_search import shares_of_words

Given = TypeVar("Given")
_KB = "default"
_POOL = 200
_MOST_EMBEDDED = 50


@dataclass(frozen=True)
class Spread:
    """Milliseconds of many runs: as they passed, and those that the core worked for it."""

    p50_ms: float
    p95_ms: float
    worst_ms: float
    p50_cpu_ms: float
    p95_cpu_ms: float


@dataclass(frozen=True)
class SearchFigures:
    """What was measured.

    Attributes:
        build_s: Storing the passages, their words and vectors; none is split or embedded.
        first_s: From opening the base to the first answer, with the index made from the store, and with the kept copy.
        memory_mb, memory_before_mb: Of the process with everything loaded, and before the base was opened.
        search: A whole search; the question's vector is given.
        words, meaning: Its two large parts alone.
        filtered: A search on a tenth of each document's pages.
        embedding: Turning a question into a vector; None where that was not asked for.
        after_change: The first search after a document was added, with 300 passages.
        num_differing: Questions whose passages are not those that NumPy finds.
    """

    index: str
    num_passages: int
    num_documents: int
    num_questions: int
    build_s: float
    first_made_s: float
    first_kept_s: float
    memory_before_mb: float
    memory_mb: float
    search: Spread
    words: Spread
    meaning: Spread
    filtered: Spread
    embedding: Spread | None
    after_change_ms: float
    num_differing: int


@dataclass(frozen=True)
class SearchJob:
    """What is measured.

    Attributes:
        home: An empty folder.
        index: As `IngestSettings.vector_index`.
        embedder: What turns questions into vectors is timed apart; None: not at all.
    """

    home: Path
    num_passages: int
    num_questions: int
    index: str
    embedder: str | None


def measure(job: SearchJob, progress: Callable[[int, int], None]) -> SearchFigures:
    """Builds a base and searches it.

    Args:
        progress: Told how many documents of how many are stored.
    """
    started = time.monotonic()
    build(job.home, InventedBase(job.num_passages), progress)
    build_s = time.monotonic() - started
    made_s = _alone(_first_answer, job)
    return replace(_alone(_measured, job), build_s=build_s, first_made_s=made_s)


def _alone(do: Callable[[SearchJob], Given], job: SearchJob) -> Given:
    """In a process of its own, whose memory is nobody else's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(do, job).result()


def build(home: Path, invented: InventedBase, progress: Callable[[int, int], None]) -> None:
    """Stores the whole invented base in `home`."""
    Corpus.open(home, IngestSettings(embedder="hashing")).close()
    database = Database(home / "documents.sqlite3")
    changes = Changes(database, home / "files")
    for number, (prepared, vectors) in enumerate(invented.documents(), 1):
        _add(home, database, changes, f"{number}.txt", prepared, vectors)
        progress(number, invented.num_documents)
    database.close()


def _add(home: Path, database: Database, changes: Changes, name: str, prepared: Prepared, vectors: Vectors) -> None:
    staged = home / "staging" / prepared.document.id
    staged.write_text(prepared.document.text, encoding="utf-8")
    changes.add(prepared, _KB, name, EmbedderIdentity(InventedEmbedder.name, DIMENSION), staged, None)
    rows = zip(prepared.passages, vectors, strict=True)
    with database.writing() as connection:
        connection.executemany(
            "UPDATE passages SET vector = ? WHERE document_id = ? AND number = ?",
            [(vector.astype("<f4").tobytes(), prepared.document.id, passage.number) for passage, vector in rows],
        )
        next_generation(connection)


def _first_answer(job: SearchJob) -> float:
    """Seconds from opening the base to its first answer."""
    questions = InventedBase(job.num_passages).questions(1)
    _on_one_core()
    started = time.monotonic()
    corpus = _opened(job, questions)
    corpus.search(questions[0].text, kb=_KB)
    seconds = time.monotonic() - started
    corpus.close()
    return seconds


def _measured(job: SearchJob) -> SearchFigures:
    """All but what `measure` adds."""
    import psutil

    invented = InventedBase(job.num_passages)
    questions = invented.questions(job.num_questions)
    _on_one_core()
    process = psutil.Process()
    before = process.memory_info().rss
    started = time.monotonic()
    corpus = _opened(job, questions)
    corpus.search(questions[0].text, kb=_KB)
    kept_s = time.monotonic() - started
    after = process.memory_info().rss

    tenth = Filters(pages=((1, 10),))
    searched = _spread(lambda one: corpus.search(one.text, kb=_KB), questions)
    filtered = _spread(lambda one: corpus.search(one.text, kb=_KB, filters=tenth), questions)
    corpus.close()

    database = Database(job.home / "documents.sqlite3")
    path = job.home / "passages.faiss"
    identity = EmbedderIdentity(InventedEmbedder.name, DIMENSION)
    with database.reading() as connection:
        roster = Rosters().of(connection)
        nearest, exact = NearestPassages(open_home(job.index, path)), NearestPassages(open_home("numpy", path))
        words = _spread(lambda one: shares_of_words(connection, one.text, roster).best(_POOL, None), questions)
        meaning = _spread(lambda one: nearest.search(connection, identity, roster, one.vector, _POOL, None), questions)
        differing = sum(
            set(nearest.search(connection, identity, roster, one.vector, _POOL, None))
            != set(exact.search(connection, identity, roster, one.vector, _POOL, None))
            for one in questions
        )
    database.close()
    changed_ms = _after_change(job, questions[:2])
    return SearchFigures(
        job.index.partition(":")[0],
        job.num_passages,
        invented.num_documents,
        job.num_questions,
        0.0,
        0.0,
        kept_s,
        before / 1e6,
        after / 1e6,
        searched,
        words,
        meaning,
        filtered,
        None if job.embedder is None else _embedding(job.embedder, questions),
        changed_ms,
        differing,
    )


def _after_change(job: SearchJob, questions: list[Question]) -> float:
    corpus = _opened(job, questions)
    corpus.search(questions[0].text, kb=_KB)
    ((more, vectors),) = InventedBase(300, seed=8).documents()
    database = Database(job.home / "documents.sqlite3")
    _add(job.home, database, Changes(database, job.home / "files"), "more.txt", more, vectors)
    database.close()
    return _timed(lambda: corpus.search(questions[1].text, kb=_KB))


def _embedding(name: str, questions: list[Question]) -> Spread:
    embedder = open_embedder(name, offline=True)
    embedder.embed_question("the first one loads the model")
    return _spread(lambda one: embedder.embed_question(one.text), questions[:_MOST_EMBEDDED])


def _opened(job: SearchJob, questions: list[Question]) -> Corpus:
    settings = IngestSettings(embedder=InventedEmbedder.name, vector_index=job.index)
    return Corpus.open(job.home, settings, embedder=InventedEmbedder(questions))


def _on_one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _spread(ask: Callable[[Question], object], questions: list[Question]) -> Spread:
    ask(questions[0])
    passed, worked = [], []
    for one in questions:
        busy = time.thread_time()
        passed.append(_timed(lambda one=one: ask(one)))  # type: ignore[misc]  # called at once
        worked.append((time.thread_time() - busy) * 1e3)
    figures = [*np.percentile(passed, [50, 95]), max(passed), *np.percentile(worked, [50, 95])]
    return Spread(*(float(figure) for figure in figures))


def _timed(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return (time.perf_counter() - started) * 1e3
