"""The index in PostgreSQL, on a real server: it finds what NumPy finds, and is mended from the store like the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from postgresql import served
from test_index import STATE, same, vectors

from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.index import open_home
from ingest.index_exact import ExactIndex
from ingest.index_pgvector import PgvectorHome, PgvectorIndex


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a server that is started here and ends with the tests."""
    with served() as made:
        yield made


@pytest.fixture
def settings(address: str) -> IngestSettings:
    return IngestSettings(embedder="hashing", vector_index=address)


def asked(address: str, query: str) -> list[tuple]:
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def test_it_finds_what_numpy_finds(address):
    """Among all and among what is allowed, after additions, removals and the same ids once more."""
    home = PgvectorHome(address)
    there, exact = home.new(replace(STATE, base="law")), ExactIndex(STATE)
    for index in (there, exact):
        index.add(np.arange(1, 301), vectors(300, 1))
    there.add(np.arange(1, 50), vectors(49, 2))  # as where two processes catch up at once
    assert there.remove(np.arange(100, 120)) == exact.remove(np.arange(100, 120)) == 20
    assert there.remove(np.arange(100, 120)) == 0
    assert len(there) == 280
    for k, allowed in (
        (1, None),
        (25, None),
        (500, None),
        (10, np.arange(90, 160)),
        (10, np.array([7])),
        (3, np.array([101])),
    ):
        for question in vectors(5, 9):
            same(there.search(question, k, allowed), exact.search(question, k, allowed))
    there.moved_to(4)
    again = PgvectorHome(address).load("law")
    assert again is not None
    assert again.state == replace(STATE, base="law", generation=4)
    assert PgvectorHome(address).load("other") is None


def test_with_an_index_on_the_server_no_fewer_are_found(address):
    """An approximate index hands out 40 by itself; as many as were wanted come, and nearly all of the nearest."""
    home = PgvectorHome(address)
    there, exact = home.new(replace(STATE, base="fast")), ExactIndex(STATE)
    for index in (there, exact):
        index.add(np.arange(2000), vectors(2000, 1))
    asked(address, "CREATE INDEX ON readonce_fast USING hnsw (vector vector_ip_ops)")
    home._server.do("SET enable_seqscan = off")
    home._server.do("SET enable_sort = off")
    question = vectors(2000, 1)[7]
    plan = home._server.rows("EXPLAIN SELECT id FROM readonce_fast ORDER BY vector <#> %s LIMIT 200", question)
    assert "readonce_fast_vector_idx" in str(plan)
    found, true = (dict(index.search(question, 200)) for index in (there, exact))
    assert len(found) == 200
    assert len(found.keys() & true.keys()) >= 180


def test_a_corpus_on_it_answers_as_on_the_file(tmp_path, write, settings):
    """The same hits with the same cosines, before and after a document is replaced and one removed."""
    corpora = [
        Corpus.open(tmp_path / "here", IngestSettings(embedder="hashing")),
        Corpus.open(tmp_path / "there", settings),
    ]
    ids = []
    for colour in ("cobalt", "crimson", "amber"):
        path = write(f"{colour}.md", f"The {colour} pump stops at night.")
        ids.append({corpus.add(path).document_id for corpus in corpora})
    here, there = ([(hit.doc_id, hit.dense_score) for hit in corpus.search("crimson pump")] for corpus in corpora)
    assert [id_ for id_, _ in here] == [id_ for id_, _ in there]
    assert [score for _, score in here] == pytest.approx([score for _, score in there], abs=1e-6)
    path = write("cobalt.md", "The cobalt boiler starts at dawn.")
    for corpus in corpora:
        corpus.add(path)
        corpus.remove(next(iter(ids[2])))
    here, there = ([hit.text for hit in corpus.search("pump at night")] for corpus in corpora)
    assert here == there == ["The crimson pump stops at night."]
    assert (tmp_path / "there" / "passages.faiss").exists() is False


@pytest.mark.parametrize("damage", ["DROP TABLE {table}", "DELETE FROM readonce_indexes", "DELETE FROM {table}"])
def test_a_server_that_was_cleared_is_filled_again(tmp_path, write, settings, address, damage):
    corpus = Corpus.open(tmp_path / "home", settings)
    added = corpus.add(write("a.md", "The cobalt pump stops at night."))
    corpus.search("pump")
    base = corpus._database.connection.execute("SELECT value FROM meta WHERE key = 'base'").fetchone()[0]
    asked(address, damage.format(table=f"readonce_{base}"))
    hit = Corpus.open(tmp_path / "home", settings).search("cobalt pump")[0]
    assert (hit.doc_id, hit.dense_score > 0.5) == (added.document_id, True)
    assert asked(address, f"SELECT count(*) FROM readonce_{base}") == [(1,)]


def test_it_lags_behind_after_a_crash_and_catches_up(tmp_path, write, settings):
    """The generation moves last: rows without it are no harm, a missing one is added."""
    corpus = Corpus.open(tmp_path / "home", settings)
    first = corpus.add(write("a.md", "The cobalt pump stops at night."))
    corpus.search("pump")
    index = corpus._lookup.nearest._index
    assert isinstance(index, PgvectorIndex)
    index.add(np.array([999]), vectors(1, 1, 256))
    index.moved_to(0)
    again = Corpus.open(tmp_path / "home", settings)
    second = again.add(write("b.md", "The amber pump stops at night."))
    assert {hit.doc_id for hit in again.search("pump")} == {first.document_id, second.document_id}
    assert sorted(index.ids.tolist()) == [1, 2]


def test_a_broken_connection_is_made_again(tmp_path, write, settings, address):
    corpus = Corpus.open(tmp_path / "home", settings)
    corpus.add(write("a.md", "The cobalt pump stops at night."))
    corpus.search("pump")
    asked(
        address,
        """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'""",
    )
    assert len(corpus.search("cobalt pump")) == 1


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path, write):
    settings = IngestSettings(embedder="hashing", vector_index="postgresql://me:secret@127.0.0.1:9/none")
    corpus = Corpus.open(tmp_path / "home", settings)
    corpus.add(write("a.md", "The cobalt pump stops."))
    with pytest.raises(IngestError) as caught:
        corpus.search("pump")
    assert caught.value.code == "index_unreachable"
    assert "secret" not in caught.value.message
    assert "faiss" in caught.value.message


def test_a_server_setting_imports_no_client_before_it_is_used():
    assert isinstance(open_home("postgresql://nowhere/none", Path("unused")), PgvectorHome)
