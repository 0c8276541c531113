"""What a check finds, what it mends, and what it leaves alone."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ingest.corpus import Corpus, IngestSettings
from ingest.findings import Report
from ingest.index_file import load_index, save_index

SETTINGS = IngestSettings(embedder="hashing", section_tokens=100)
MANUAL = "# Manual\n\n" + "\n\n".join(
    f"## Part {n}\n\nThe cobalt pump number {n} stops at night. " + "The operator oils the valve. " * 30
    for n in range(5)
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two documents, kept sections and a saved vector index."""
    folder = tmp_path_factory.mktemp("made")
    corpus = Corpus.open(folder / "home", SETTINGS)
    for name, text in (("manual.md", MANUAL), ("boiler.md", "# Boiler\n\nThe crimson boiler starts at dawn.")):
        path = folder / name
        path.write_text(text)
        corpus.sections(corpus.add(path).document_id)
    corpus.search("pump")
    corpus.close()
    return folder / "home"


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """One of its own for each test."""
    return Path(shutil.copytree(made, tmp_path / "home"))


def checked(home: Path, repair: bool = False) -> Report:
    corpus = Corpus.open(home, SETTINGS)
    try:
        return corpus.check(repair=repair)
    finally:
        corpus.close()


def codes(report: Report) -> list[tuple[str, bool]]:
    return [(finding.code, finding.mended) for finding in report.findings]


def by_sql(*statements: str) -> Callable[[Path], None]:
    def damage(home: Path) -> None:
        with closing(sqlite3.connect(home / "documents.sqlite3")) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return damage


def foreign_index(home: Path) -> None:
    index = load_index(home / "passages.faiss")
    assert index is not None
    ids, vectors = index.vectors(np.sort(index.ids))
    index.remove(ids)
    index.add(ids, vectors[::-1].copy())
    save_index(home / "passages.faiss", index)


def index_without_one(home: Path) -> None:
    index = load_index(home / "passages.faiss")
    assert index is not None
    index.remove(index.ids[:1])
    save_index(home / "passages.faiss", index)


def test_a_sound_home_has_no_findings(home):
    """Nothing is found, nothing is changed, and what was looked at is counted."""
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    report = checked(home)
    assert (report.findings, report.notes, report.is_sound) == ((), (), True)
    assert (report.documents, report.passages) == (2, 12)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


MENDED = {
    "words out of the keyword index": (by_sql("DELETE FROM keywords WHERE rowid = 2"), "keywords_differ"),
    "other words in the keyword index": (by_sql("UPDATE keywords SET words = 'x' WHERE rowid = 2"), "keywords_differ"),
    "words of nothing": (by_sql("INSERT INTO keywords (rowid, words) VALUES (99, 'ghost')"), "keywords_stray"),
    "a keyword index that finds other words than it holds": (
        by_sql("UPDATE keywords_content SET c0 = 'ghost' WHERE id = 2"),
        "keywords_damaged",
    ),
    "a vector cut off": (by_sql("UPDATE passages SET vector = substr(vector, 1, 40) WHERE id = 1"), "vector_damaged"),
    "a vector of zeros": (by_sql("UPDATE passages SET vector = zeroblob(1024) WHERE id = 1"), "vector_damaged"),
    "a passage missing": (by_sql("DELETE FROM passages WHERE id = 3"), "passages_broken"),
    "a passage that is too short": (by_sql('UPDATE passages SET "end" = "end" - 4 WHERE id = 3'), "passages_broken"),
    "all pages missing": (by_sql("DELETE FROM pages"), "pages_broken"),
    "a page that ends too soon": (by_sql('UPDATE pages SET "end" = "end" - 4'), "pages_broken"),
    "a paragraph missing": (by_sql("DELETE FROM paragraphs WHERE number = 2"), "paragraphs_broken"),
    "a paragraph on another page": (by_sql("UPDATE paragraphs SET page = 7 WHERE number = 2"), "paragraphs_broken"),
    "a section missing": (by_sql("DELETE FROM sections WHERE number = 2"), "sections_broken"),
    "a section of other paragraphs": (
        by_sql("UPDATE sections SET last_paragraph = 1 WHERE number = 2"),
        "sections_broken",
    ),
    "pages of no document": (by_sql("INSERT INTO pages VALUES ('gone', 1, NULL, 0, 1, 'text')"), "store_references"),
    "a document in no base": (by_sql("DELETE FROM members WHERE name = 'boiler.md'"), "document_lost"),
    "an index cut off": (lambda home: os.truncate(home / "passages.faiss", 90), "index_damaged"),
    "an index with shifted vectors": (foreign_index, "index_differs"),
    "an index that lacks a passage": (index_without_one, "index_differs"),
}


@pytest.mark.parametrize(("damage", "code"), MENDED.values(), ids=MENDED)
def test_what_can_be_made_from_the_texts_is_found_and_mended(home, damage, code):
    """Found without `repair` and left as it is; mended with it; then nothing is found, and both documents are."""
    damage(home)
    assert (code, False) in codes(checked(home))
    assert (code, False) in codes(checked(home))
    report = checked(home, repair=True)
    assert (code, True) in codes(report)
    assert report.is_sound
    assert codes(checked(home)) == []
    corpus = Corpus.open(home, SETTINGS)
    for question, name in (("cobalt pump number 2", "manual.md"), ("crimson boiler", "boiler.md")):
        best = corpus.search(question, kb=None)[0]
        assert corpus.document(best.doc_id).name in (name, f"{best.doc_id}.md")
        nearness = corpus.embedder.embed_question(question) @ corpus.embedder.embed_question(best.text)
        assert best.dense_score == pytest.approx(float(nearness), abs=1e-5)
    corpus.close()


def lost_file(home: Path) -> None:
    next((home / "files").iterdir()).unlink()


def changed_file(home: Path) -> None:
    with next((home / "files").iterdir()).open("ab") as file:
        file.write(b"!")


KEPT = {
    "an original file is gone": (lost_file, "file_missing"),
    "an original file was changed": (changed_file, "file_changed"),
}


@pytest.mark.parametrize(("damage", "code"), KEPT.values(), ids=KEPT)
def test_what_cannot_be_made_again_is_said_and_kept(home, damage, code):
    """The finding stays, says what to do, and the documents are there and found as before."""
    damage(home)
    report = checked(home, repair=True)
    assert set(codes(report)) == {(code, False)}
    assert "add" in report.findings[0].sentence
    assert not report.is_sound
    corpus = Corpus.open(home, SETTINGS)
    assert len(corpus.documents()) == 2
    assert "cobalt pump" in corpus.search("cobalt pump")[0].text
    corpus.close()


def test_sound_vectors_are_kept_when_another_one_is_mended(home):
    """Only the damaged passage is embedded anew."""
    corpus = Corpus.open(home, SETTINGS)
    embedded = []
    embedder = corpus.embedder
    given = embedder.embed_passages
    embedder.embed_passages = lambda texts, batch_done=None: embedded.extend(texts) or given(texts, batch_done)
    by_sql("UPDATE passages SET vector = zeroblob(1024) WHERE id = 1")(home)
    (home / "passages.faiss").unlink()
    report = corpus.check(repair=True)
    assert codes(report) == [("vector_damaged", True)]
    assert len(embedded) == 1
    corpus.close()


def test_passages_that_wait_for_a_vector_are_no_finding(home):
    """A vector may come later: where the base allows none, the check says how many wait."""
    with closing(sqlite3.connect(home / "documents.sqlite3")) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'vector BLOB NOT NULL', 'vector BLOB') WHERE name = 'passages'"
        )
        connection.execute("PRAGMA writable_schema = RESET")
    by_sql("UPDATE passages SET vector = NULL WHERE id = 1")(home)
    (home / "passages.faiss").unlink()
    report = checked(home)
    assert report.findings == ()
    assert report.notes == ("1 passages wait for their vectors and are found by their words meanwhile.",)


def test_a_document_in_no_base_comes_back_into_one_of_its_own(home):
    """Nobody who may not read it finds it in another base."""
    by_sql("DELETE FROM members WHERE name = 'boiler.md'")(home)
    checked(home, repair=True)
    corpus = Corpus.open(home, SETTINGS)
    assert [document.name for document in corpus.documents("default")] == ["manual.md"]
    assert [document.title for document in corpus.documents("recovered")] == ["Boiler"]
    corpus.close()


def test_what_a_killed_process_left_is_cleared_by_the_next_one_that_is_alone(home):
    """Original files without a document, half copies, links of a backup: gone once the home is opened."""
    strays = [home / "files" / "0123456789abcdef.md", home / "staging" / "half", home / "snapshots" / "a" / "b"]
    for path in strays:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("left")
    assert codes(checked(home)) == []
    assert [path.exists() for path in strays] == [False, False, False]


def test_what_was_left_is_a_finding_while_others_have_the_home_open(home):
    """It may be theirs by a hair: half copies of the last day are not touched, a file without a document is."""
    other = Corpus.open(home, SETTINGS)
    stray, half = home / "files" / "0123456789abcdef.md", home / "staging" / "half"
    for path in (stray, half):
        path.write_text("left")
    assert codes(checked(home)) == [("file_stray", False)]
    assert codes(checked(home, repair=True)) == [("file_stray", True)]
    assert (stray.exists(), half.exists()) == (False, True)
    os.utime(half, (0, 0))
    assert codes(checked(home, repair=True)) == [("staging_left", True)]
    other.close()
