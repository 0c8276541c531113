"""A crash at any point leaves the last good state; files and index that are out of step are mended, never believed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ingest.corpus import Corpus, IngestSettings
from ingest.index_file import load_index, save_index

ROOT = Path(__file__).parents[2]
SETTINGS = IngestSettings(embedder="hashing")
# Replaces one document for ever, and says each version that was acknowledged.
WRITER = """
import sys
from pathlib import Path
from ingest.corpus import Corpus, IngestSettings
corpus = Corpus.open(Path(sys.argv[1]), IngestSettings(embedder="hashing"))
path = Path(sys.argv[2])
print("ready", flush=True)
for version in range(int(sys.argv[3]), 10**6):
    path.write_text(f"# Manual\\n\\nVersion number zq{version}. " + f"The pump of version {version} runs. " * 400)
    corpus.add(path)
    corpus.search(f"zq{version}")
    print(version, flush=True)
"""


def consistent_version(home: Path) -> int:
    """Checks that all parts speak of one version, and gives it."""
    corpus = Corpus.open(home, SETTINGS)
    (document,) = corpus.documents()
    text = corpus.text(document.id)
    version = int(text.split("zq")[1].split(".")[0])
    passages = corpus.passages(document.id)
    assert "".join("".join(text[p.start : p.end].split()) for p in passages) == "".join(text.split())
    assert corpus.file(document.id).read_text() == text
    connection = corpus._database.connection
    assert connection.execute("SELECT count(*) FROM keywords").fetchone()[0] == len(passages)
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    hits = corpus.search(f"version number zq{version}", k=200)
    assert {hit.doc_id for hit in hits} == {document.id}
    assert hits[0].passage == 1
    corpus.close()
    return version


def test_kill_at_any_moment_loses_nothing_acknowledged(tmp_path):
    """Five kills while a document is replaced over and over: the base holds the last version or the one on its way."""
    home, path = tmp_path / "home", tmp_path / "manual.md"
    moments = random.Random(7)
    version = -1
    for _ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home), str(path), str(version + 1)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        acknowledged = version
        if acknowledged < 0:
            acknowledged = int(child.stdout.readline())
        time.sleep(moments.uniform(0.0, 0.8))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        lines = [line for line in child.stdout.read().splitlines() if line]
        child.stdout.close()
        acknowledged = int(lines[-1]) if lines else acknowledged
        version = consistent_version(home)
        assert version in (acknowledged, acknowledged + 1)


@pytest.fixture
def three(corpus, write):
    """Three documents and a saved index over them."""
    ids = [
        corpus.add(write(f"{colour}.md", f"The {colour} pump stops at night.")).document_id
        for colour in ("cobalt", "crimson", "amber")
    ]
    corpus.search("pump")
    return ids


def index_file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "passages.faiss"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"not an index",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-10] + b"0123456789",
        lambda data: data.replace(b'"generation": ', b'"generation": 9'),
    ],
    ids=["empty", "foreign", "cut off", "changed", "from the future"],
)
def test_a_damaged_index_is_made_again_from_the_store(three, tmp_path, damage):
    path = index_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    again = Corpus.open(tmp_path / "home", SETTINGS)
    assert again.search("crimson pump")[0].doc_id == three[1]
    mended = load_index(path)
    assert mended is not None
    assert len(mended) == 3


def test_a_missing_index_is_made_again(three, tmp_path):
    index_file(tmp_path).unlink()
    assert Corpus.open(tmp_path / "home", SETTINGS).search("amber pump")[0].doc_id == three[2]


def test_an_index_of_an_earlier_state_follows_the_store(three, corpus, write, tmp_path):
    """As after a crash between the commit and saving the index: what was removed is not found, what was added is."""
    old = index_file(tmp_path).read_bytes()
    corpus.remove(three[0])
    added = corpus.add(write("violet.md", "The violet pump stops at night.")).document_id
    corpus.search("pump")
    index_file(tmp_path).write_bytes(old)
    again = Corpus.open(tmp_path / "home", SETTINGS)
    assert {hit.doc_id for hit in again.search("pump")} == {three[1], three[2], added}


def test_an_index_of_another_base_is_not_believed(three, write, tmp_path):
    """Same ids, same generation, other vectors: it carries the name of its base (case C20)."""
    other = Corpus.open(tmp_path / "other", SETTINGS)
    for colour in ("white", "black", "green"):
        other.add(write(f"{colour}.md", f"The {colour} boiler starts at dawn."))
    other.search("boiler")
    index_file(tmp_path).write_bytes((tmp_path / "other" / "passages.faiss").read_bytes())
    again = Corpus.open(tmp_path / "home", SETTINGS)
    hit = again.search("crimson pump")[0]
    assert hit.doc_id == three[1]
    assert hit.dense_score == pytest.approx(
        float(again.embedder.embed_question("crimson pump") @ again.embedder.embed_question(hit.text)), abs=1e-5
    )


def test_vectors_that_differ_from_the_stores_are_not_believed(three, corpus, tmp_path):
    """As after the store was set back to a backup and went on from there with ids that the index knows otherwise."""
    index = load_index(index_file(tmp_path))
    assert index is not None
    ids = np.sort(index.ids)
    ids, vectors = index.vectors(ids)
    index.remove(ids)
    index.add(ids, vectors[::-1].copy())
    save_index(index_file(tmp_path), index)
    hit = Corpus.open(tmp_path / "home", SETTINGS).search("cobalt pump stops at night")[0]
    assert hit.doc_id == three[0]
    assert hit.dense_score > 0.9


def test_what_a_crash_left_in_the_folders_is_cleared(corpus, write, tmp_path):
    """A file whose document was never committed goes with the next change; a half copied one after a day."""
    orphan = tmp_path / "home" / "files" / "0123456789abcdef.pdf"
    orphan.write_bytes(b"orphan")
    stale, fresh = tmp_path / "home" / "staging" / "old", tmp_path / "home" / "staging" / "new"
    for path in (stale, fresh):
        path.write_bytes(b"half")
    os.utime(stale, (0, 0))
    corpus.add(write("a.md", "Some words."))
    assert (orphan.exists(), stale.exists(), fresh.exists()) == (False, False, True)
