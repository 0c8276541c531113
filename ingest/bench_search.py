"""Decides how a search is measured: on an invented base, in a process of its own on one core, part by part."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from ingest.changes import Changes
from ingest.corpus import Corpus
from ingest.database import Database
from ingest.document import IngestError
from ingest.embed_choice import ENGLISH
from ingest.identity import EmbedderIdentity
from ingest.index import open_home
from ingest.invented import DIMENSION, InventedBase, InventedEmbedder, Question
from ingest.roster import Rosters
from ingest.scope import Filters
from ingest.settings import IngestSettings
from ingest.vectors import NearestPassages
from ingest.word_search import shares_of_words

_KB = "default"
_POOL = 200


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
        embedding: Turning a question into a vector with the packaged embedder; None where none is installed.
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


def measure(
    home: Path, num_passages: int, num_questions: int, index: str, progress: Callable[[int, int], None]
) -> SearchFigures:
    """Builds a base in the empty folder `home` and searches it.

    Args:
        progress: Told how many documents of how many are stored.
    """
    invented = InventedBase(num_passages)
    started = time.monotonic()
    build(home, invented, progress)
    build_s = time.monotonic() - started
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        made = process.submit(_first_answer, home, invented.num_passages, index).result()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measured, home, invented.num_passages, num_questions, index, build_s, made).result()


def build(home: Path, invented: InventedBase, progress: Callable[[int, int], None]) -> None:
    """Stores the whole invented base in `home`."""
    Corpus.open(home, IngestSettings(embedder="hashing")).close()
    database = Database(home / "documents.sqlite3")
    changes = Changes(database, home / "files")
    for number, prepared in enumerate(invented.documents(), 1):
        staged = home / "staging" / prepared.document.id
        staged.write_text(prepared.document.text, encoding="utf-8")
        changes.add(prepared, _KB, f"{number}.txt", EmbedderIdentity(InventedEmbedder.name, DIMENSION), staged)
        progress(number, invented.num_documents)
    database.close()


def _first_answer(home: Path, num_passages: int, index: str) -> float:
    """Seconds from opening the base to its first answer."""
    (question,) = InventedBase(num_passages).questions(1)
    _on_one_core()
    started = time.monotonic()
    corpus = _opened(home, index, [question])
    corpus.search(question.text, kb=_KB)
    seconds = time.monotonic() - started
    corpus.close()
    return seconds


def _measured(
    home: Path, num_passages: int, num_questions: int, index: str, build_s: float, made_s: float
) -> SearchFigures:
    import psutil

    invented = InventedBase(num_passages)
    questions = invented.questions(num_questions)
    _on_one_core()
    process = psutil.Process()
    before = process.memory_info().rss
    started = time.monotonic()
    corpus = _opened(home, index, questions)
    corpus.search(questions[0].text, kb=_KB)
    kept_s = time.monotonic() - started
    after = process.memory_info().rss

    tenth = Filters(pages=((1, 10),))
    searched = _spread(lambda one: corpus.search(one.text, kb=_KB), questions)
    filtered = _spread(lambda one: corpus.search(one.text, kb=_KB, filters=tenth), questions)
    corpus.close()

    database = Database(home / "documents.sqlite3")
    path = home / "passages.faiss"
    identity = EmbedderIdentity(InventedEmbedder.name, DIMENSION)
    with database.reading() as connection:
        roster = Rosters().of(connection)
        nearest, exact = NearestPassages(open_home(index, path)), NearestPassages(open_home("numpy", path))
        words = _spread(lambda one: shares_of_words(connection, one.text, roster, None, _POOL), questions)
        meaning = _spread(lambda one: nearest.search(connection, identity, roster, one.vector, _POOL, None), questions)
        differing = sum(
            set(nearest.search(connection, identity, roster, one.vector, _POOL, None))
            != set(exact.search(connection, identity, roster, one.vector, _POOL, None))
            for one in questions
        )
    database.close()
    changed_ms = _after_change(home, index, questions[:2])
    return SearchFigures(
        index.partition(":")[0],
        num_passages,
        invented.num_documents,
        num_questions,
        build_s,
        made_s,
        kept_s,
        before / 1e6,
        after / 1e6,
        searched,
        words,
        meaning,
        filtered,
        _embedding(questions),
        changed_ms,
        differing,
    )


def _after_change(home: Path, index: str, questions: list[Question]) -> float:
    corpus = _opened(home, index, questions)
    corpus.search(questions[0].text, kb=_KB)
    (more,) = InventedBase(300, seed=8).documents()
    staged = home / "staging" / more.document.id
    staged.write_text(more.document.text, encoding="utf-8")
    database = Database(home / "documents.sqlite3")
    changes = Changes(database, home / "files")
    changes.add(more, _KB, "more.txt", EmbedderIdentity(InventedEmbedder.name, DIMENSION), staged)
    database.close()
    return _timed(lambda: corpus.search(questions[1].text, kb=_KB))


def _embedding(questions: list[Question]) -> Spread | None:
    from ingest.embed import open_embedder

    try:
        embedder = open_embedder(ENGLISH, offline=True)
        embedder.embed_question("the first one loads the model")
    except IngestError:
        return None
    return _spread(lambda one: embedder.embed_question(one.text), questions[:50])


def _opened(home: Path, index: str, questions: list[Question]) -> Corpus:
    settings = IngestSettings(embedder=InventedEmbedder.name, vector_index=index)
    return Corpus.open(home, settings, embedder=InventedEmbedder(questions))


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
