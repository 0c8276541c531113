"""A folder is taken in once: added again only what changed is read, and a killed run is gone on with."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pdf_maker import pdf

from ingest import intake
from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.embed_hashing import HashingEmbedder
from ingest.naming import FileToAdd
from ingest.read import read
from ingest.sections import split_sections

ROOT = Path(__file__).parents[2]
SETTINGS = IngestSettings(embedder="hashing", jobs=2)
AHEAD = 3 * 2
BATCH = 16
# Adds a folder, and notes each text that was split, each that was embedded and each file that was acknowledged.
ADDER = f"""
import sys
from pathlib import Path
import ingest.embedding as embedding
from ingest.corpus import Corpus, IngestSettings
from ingest.database import text_hash
from ingest.naming import FileToAdd

def main():
    embedding.BATCH = {BATCH}
    folder, log = Path(sys.argv[2]), open(sys.argv[3], "a", buffering=1)
    corpus = Corpus.open(Path(sys.argv[1]), IngestSettings(embedder="hashing", jobs=2))
    plain = corpus.embedder.embed_passages

    def embed(texts, batch_done=None):
        log.write("".join(f"embed {{text_hash(text).hex()}}\\n" for text in texts))
        return plain(texts, batch_done)

    def progress(name, stage, done, total):
        if stage == "split" and done:
            log.write(f"split {{name}}\\n")

    corpus.embedder.embed_passages = embed
    files = [FileToAdd(path, folder) for path in sorted(folder.rglob("*.*"))]
    for file, added in corpus.add_all(files, progress=progress):
        log.write(f"{{getattr(added, 'status', 'error')}} {{file.path.name}}\\n")

if __name__ == "__main__":
    main()
"""


def mixed(folder: Path, count: int) -> int:
    """Writes `count` files of several kinds, one in 50 of them broken; gives how many can be read."""
    folder.mkdir()
    for n in range(count):
        sentence = f"The pump number zq{n} stops at night. " * (1 + n % 5)
        if n % 50 == 49:
            (folder / f"f{n:03}.pdf").write_bytes(b"%PDF-1.4 broken")
        elif n % 10 == 0:
            (folder / f"f{n:03}.pdf").write_bytes(pdf([sentence]))
        elif n % 3 == 0:
            (folder / f"f{n:03}.html").write_text(f"<title>Pump {n}</title><p>{sentence}</p>")
        else:
            (folder / f"f{n:03}.md").write_text(f"# Pump {n}\n\n{sentence}")
    return count - count // 50


def listed(folder: Path) -> list[FileToAdd]:
    return [FileToAdd(path, folder) for path in sorted(folder.rglob("*.*"))]


def added_all(corpus: Corpus, folder: Path) -> dict[str, str]:
    """What became of each file below a folder, by its path there."""
    results = corpus.add_all(listed(folder))
    return {str(file.path.relative_to(folder)): getattr(added, "status", "error") for file, added in results}


def killed_and_resumed(folder: Path, count: int, kills: int) -> tuple[int, int]:
    """Kills a run `kills` times at random moments, lets it end, and says how many texts were split and embedded twice.

    All that can be read is there then, once.
    """
    readable = mixed(folder / "in", count)
    log, script = folder / "log", folder / "adder.py"
    script.write_text(ADDER)
    log.touch()
    moments = random.Random(11)
    command = [sys.executable, str(script), str(folder / "home"), str(folder / "in"), str(log)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for _ in range(kills):
        # A moment in work done, not in seconds: it is killed in the midst of its work on any machine.
        wanted = log.stat().st_size + moments.randrange(100, 90 * count // kills)
        with subprocess.Popen(command, env=environment) as adding:
            while adding.poll() is None and log.stat().st_size < wanted:
                time.sleep(0.002)
            os.kill(adding.pid, signal.SIGKILL)
    subprocess.run(command, env=environment, check=True)
    lines = [line.split(" ", 1) for line in log.read_text(errors="replace").splitlines() if " " in line]
    done = {kind: [name for other, name in lines if other == kind] for kind in ("ok", "split", "embed")}
    assert len(done["ok"]) == len(set(done["ok"]))
    corpus = Corpus.open(folder / "home", SETTINGS)
    assert len(corpus.documents()) == readable
    assert corpus.num_to_embed() == 0
    # No number was ever given to a passage that is not there: each was stored once.
    row = corpus._database.connection.execute(
        "SELECT count(*), (SELECT seq FROM sqlite_sequence WHERE name = 'passages') FROM passages"
    ).fetchone()
    assert row[0] == row[1]
    assert set(added_all(corpus, folder / "in").values()) <= {"unchanged", "error"}
    corpus.close()
    return len(done["split"]) - len(set(done["split"])), len(done["embed"]) - len(set(done["embed"]))


def test_a_killed_run_is_gone_on_with_and_nothing_stored_is_done_twice(tmp_path):
    """Again is done only what a kill caught on its way: files read ahead, and the batch before its commit."""
    kills = 3
    split_twice, embedded_twice = killed_and_resumed(tmp_path, 60, kills)
    assert split_twice <= kills * AHEAD
    assert embedded_twice <= kills * BATCH


def test_files_come_in_order_whatever_is_read_first_and_a_bad_one_stops_no_other(tmp_path):
    """The long file comes first though the others are read beside it; no copy is left."""
    folder = tmp_path / "in"
    mixed(folder, 8)
    (folder / "a.md").write_text("# Long\n\n" + "The crimson boiler starts at dawn. " * 3_000)
    (folder / "f003.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "f005.md").write_text("")
    corpus = Corpus.open(tmp_path / "home", SETTINGS)
    results = dict(corpus.add_all(listed(folder)))
    seen = [file.path.name for file in results]
    assert seen == sorted(seen)
    errors = {file.path.name: added for file, added in results.items() if isinstance(added, Exception)}
    codes = {name: error.code for name, error in errors.items() if isinstance(error, IngestError)}
    assert codes == {"f003.pdf": "corrupt", "f005.md": "empty_file"}
    assert [document.name for document in corpus.documents()] == [name for name in seen if name not in codes]
    assert list((tmp_path / "home" / "staging").iterdir()) == []


def test_only_what_changed_is_read_again(tmp_path):
    folder = tmp_path / "in"
    mixed(folder, 5)
    corpus = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing", jobs=1))
    added_all(corpus, folder)
    (folder / "f001.md").write_text("# Pump\n\nThe amber pump is new.")
    (folder / "new.md").write_text("# Valve\n\nThe violet valve is new.")
    read = set()
    for _ in corpus.add_all(listed(folder), progress=lambda name, stage, *_: read.add(name) if name else None):
        pass
    assert read == {"f001.md", "new.md"}


@pytest.fixture
def two_of_a_name(tmp_path):
    folder = tmp_path / "in"
    for part in ("one", "two"):
        (folder / part).mkdir(parents=True)
        (folder / part / "readme.md").write_text(f"# {part}\n\nThe pump of part {part} stops at night.")
    return folder


def test_files_of_one_name_in_two_folders_do_not_replace_each_other(corpus, two_of_a_name):
    """Each keeps the name under which it came in, also when it is edited."""
    assert set(added_all(corpus, two_of_a_name).values()) == {"ok"}
    names = ["readme.md", "two/readme.md"]
    assert [document.name for document in corpus.documents()] == names
    assert set(added_all(corpus, two_of_a_name).values()) == {"unchanged"}
    (two_of_a_name / "two" / "readme.md").write_text("# two\n\nThe boiler has taken its place.")
    assert added_all(corpus, two_of_a_name) == {"one/readme.md": "unchanged", "two/readme.md": "replaced"}
    assert sorted(document.name for document in corpus.documents()) == names


def test_a_file_that_was_moved_keeps_its_document_under_its_new_name(corpus, two_of_a_name):
    """Nothing is read again, and nothing counts as gone."""
    added_all(corpus, two_of_a_name)
    (two_of_a_name / "one" / "readme.md").rename(two_of_a_name / "one" / "first.md")
    assert added_all(corpus, two_of_a_name)["one/first.md"] == "ok"
    assert sorted(document.name for document in corpus.documents()) == ["first.md", "two/readme.md"]
    assert corpus.vanished(two_of_a_name) == ()


def test_a_file_that_has_gone_is_named_only_for_its_own_folder(corpus, two_of_a_name, write):
    added_all(corpus, two_of_a_name)
    elsewhere = write("other.md", "The valve opens.")
    corpus.add(elsewhere)
    (two_of_a_name / "one" / "readme.md").unlink()
    assert [document.name for document in corpus.vanished(two_of_a_name)] == ["readme.md"]
    assert corpus.vanished(two_of_a_name / "two") == ()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        twice = killed_and_resumed(Path(made), 500, 12)
    print(f"500 files, 12 kills: {twice[0]} splits and {twice[1]} embeddings done again, of what was not stored yet")


def test_many_files_of_another_embedder_than_the_bases_are_refused_one_by_one(tmp_path):
    """Nothing is stored that could never be found by meaning; the sentence says what to set."""
    folder = tmp_path / "in"
    mixed(folder, 6)
    (tmp_path / "first.md").write_text("The amber pump starts at dawn.")
    corpus = Corpus.open(tmp_path / "home", SETTINGS, embedder=HashingEmbedder(64))
    corpus.add(tmp_path / "first.md")
    corpus.close()
    corpus = Corpus.open(tmp_path / "home", SETTINGS)
    results = [added for _, added in corpus.add_all(listed(folder))]
    assert [getattr(added, "code", "") for added in results] == ["embedder_changed"] * 6
    assert [document.name for document in corpus.documents()] == ["first.md"]
    assert list((tmp_path / "home" / "staging").iterdir()) == []


# Adds a folder to a new home, says what became of each file, and what heavy packages the storing process imported.
STORER = """
import sys
from pathlib import Path
from ingest.corpus import Corpus, IngestSettings
from ingest.naming import FileToAdd

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    corpus = Corpus.open(Path(sys.argv[1]), IngestSettings(embedder="hashing", jobs=2))
    files = [FileToAdd(path, folder) for path in sorted(folder.iterdir())]
    print(*(added.status for _, added in corpus.add_all(files)))
    print(*sorted({"llama_index", "pypdf", "lxml"}.intersection(sys.modules)))
"""


def test_from_a_new_bases_first_file_on_others_read_and_split(tmp_path):
    """The process that stores has no time for it: nothing that reads or splits is ever imported there."""
    mixed(tmp_path / "in", 6)
    (tmp_path / "storer.py").write_text(STORER)
    told = subprocess.run(
        [sys.executable, str(tmp_path / "storer.py"), str(tmp_path / "home"), str(tmp_path / "in")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["ok ok ok ok ok ok", ""]


def test_sections_are_stored_with_their_document(tmp_path):
    """In its own transaction, so that nobody who asks for them first has to write."""
    (tmp_path / "long.md").write_text(
        "\n\n".join(f"# Part {n}\n\n" + "The pump stops at night. " * 30 for n in range(9))
    )
    settings = IngestSettings(embedder="hashing", section_tokens=300)
    corpus = Corpus.open(tmp_path / "home", settings)
    added = corpus.add(tmp_path / "long.md")
    stored = corpus._store.sections(added.document_id, 300)
    assert len(stored) == added.sections > 1
    assert sum(section.num_tokens for section in stored) == added.tokens
    assert stored == split_sections(
        corpus.read_document(added.document_id), corpus.paragraphs(added.document_id), settings.section_tokens
    )


def test_what_splits_is_loaded_while_the_file_is_read(tmp_path, monkeypatch):
    """Reading is another process's work: a first document need not wait for the one after the other."""
    loading = threading.Event()
    seen = []

    def watched(*arguments, **options):
        seen.append(loading.wait(timeout=60))
        return read(*arguments, **options)

    monkeypatch.setattr(intake, "load_splitters", loading.set)
    monkeypatch.setattr(intake, "read", watched)
    (tmp_path / "a.md").write_text("The amber pump starts at dawn.")
    corpus = Corpus.open(tmp_path / "home", SETTINGS)
    assert corpus.add(tmp_path / "a.md").status == "ok"
    assert seen == [True]
