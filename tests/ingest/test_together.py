"""Several processes and threads on one home: each change is seen by all, and none is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ingest.corpus import Corpus, IngestSettings

ROOT = Path(__file__).parents[2]
SETTINGS = IngestSettings(embedder="hashing")
ADDER = """
import sys
from pathlib import Path
from ingest.corpus import Corpus, IngestSettings
corpus = Corpus.open(Path(sys.argv[1]), IngestSettings(embedder="hashing"))
for path in sys.argv[2:]:
    print(corpus.add(Path(path)).status)
"""


def test_two_processes_add_at_once_to_a_new_home(write, tmp_path):
    """Ten files of their own and two in common: all are there once."""
    own = [[write(f"{name}{n}.md", f"The {name} pump number {n} stops.") for n in range(5)] for name in ("a", "b")]
    common = [write(f"common{n}.md", f"The common valve number {n} opens.") for n in range(2)]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", ADDER, str(tmp_path / "home"), *map(str, common + files)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for files in own
    ]
    outputs = [child.communicate()[0].split() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert all(len(statuses) == 7 and set(statuses) <= {"ok", "unchanged"} for statuses in outputs)
    corpus = Corpus.open(tmp_path / "home", SETTINGS)
    names = [document.name for document in corpus.documents()]
    assert sorted(names) == sorted(path.name for path in common + own[0] + own[1])
    assert len(corpus.search("Which pump stops?", k=50)) == 10


def test_another_process_s_changes_are_seen_by_the_next_search(corpus, write, tmp_path):
    """The index notices by generation: additions are found, removals are not (case C16)."""
    first = corpus.add(write("cobalt.md", "The cobalt pump stops at night.")).document_id
    assert [hit.doc_id for hit in corpus.search("pump")] == [first]
    other = Corpus.open(tmp_path / "home", SETTINGS)
    second = other.add(write("amber.md", "The amber pump stops at night.")).document_id
    assert {hit.doc_id for hit in corpus.search("pump")} == {first, second}
    other.remove(first)
    assert [hit.doc_id for hit in corpus.search("pump")] == [second]


def test_threads_may_add_remove_and_search_at_once(corpus, write):
    """No search sees a document in part, and none fails."""
    files = [write(f"{n}.md", f"The pump number zq{n} stops at night. " * 30) for n in range(8)]
    stop = threading.Event()
    searches = []

    def search() -> None:
        while not stop.is_set():
            for hit in corpus.search("pump at night", k=100):
                searches.append(hit.text.startswith("The pump"))

    with ThreadPoolExecutor(6) as pool:
        searching = [pool.submit(search) for _ in range(2)]
        added = list(pool.map(corpus.add, files))
        removed = list(pool.map(lambda one: corpus.remove(one.document_id), added[:4]))
        stop.set()
        for future in searching:
            future.result()
    assert [one.status for one in added] == ["ok"] * 8
    assert removed == [True] * 4
    assert all(searches)
    assert {hit.doc_id for hit in corpus.search("pump at night", k=100)} == {one.document_id for one in added[4:]}


def test_a_reader_is_not_kept_waiting_by_a_writer(corpus, write, tmp_path):
    """Search and list answer while another holds the write lock (case C27)."""
    added = corpus.add(write("cobalt.md", "The cobalt pump stops at night.")).document_id
    corpus.search("pump")
    writer = Corpus.open(tmp_path / "home", SETTINGS)
    with writer._database.writing() as connection:
        connection.execute("DELETE FROM members")
        assert [hit.doc_id for hit in corpus.search("pump")] == [added]
        assert [document.id for document in corpus.documents()] == [added]


def test_a_thread_that_ends_takes_its_connection_along(corpus, write):
    """A page's threads come and go for weeks: files that stay open behind them would use up what a process may have."""
    corpus.add(write("cobalt.md", "The cobalt pump stops at night."))
    held = len(corpus._database._opened)
    for _ in range(5):
        thread = threading.Thread(target=corpus.search, args=("pump",))
        thread.start()
        thread.join()
    assert len(corpus._database._opened) == held
    assert len(corpus.search("pump")) == 1
