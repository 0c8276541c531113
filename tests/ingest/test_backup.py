"""A backup holds all of a home as of one moment; a restore gives all of it back, or changes nothing."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.manifest import MANIFEST_NAME, verify
from ingest.restore import left_behind, restore

SETTINGS = IngestSettings(embedder="hashing", section_tokens=300)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three documents in two bases, a settings file and a key. Tests don't change it."""
    folder = tmp_path_factory.mktemp("saved")
    corpus = Corpus.open(folder / "home", SETTINGS)
    for colour, kb in (("amber", "default"), ("cobalt", "default"), ("crimson", "other")):
        path = folder / f"{colour}.md"
        path.write_text(f"# {colour}\n\nThe {colour} pump stops at night.")
        corpus.sections(corpus.add(path, kb=kb).document_id)
    corpus.close()
    (folder / "home" / "readonce.toml").write_text('model = "smollm2-135m"\n')
    (folder / "home" / "salt.key").write_bytes(b"s" * 32)
    (folder / "home" / "salt.key").chmod(0o600)
    return folder / "home"


@pytest.fixture(scope="module")
def archive(home: Path) -> Path:
    corpus = Corpus.open(home, SETTINGS)
    done = corpus.backup(home.with_name("saved.zip"), [home / "readonce.toml", home / "salt.key"])
    corpus.close()
    assert (done.num_documents, done.num_files, done.left_out) == (3, 6, ())
    return done.path


def contents(home: Path) -> dict[str, object]:
    """All that a person has in a home."""
    corpus = Corpus.open(home, SETTINGS)
    held: dict[str, object] = {
        f"{document.kb}/{document.name}": (
            corpus.text(document.id),
            corpus.file(document.id).read_bytes(),
            corpus.passages(document.id),
            corpus.sections(document.id),
            document.added_at,
        )
        for document in corpus.documents()
    }
    assert corpus.check().findings == ()
    corpus.close()
    for name in ("readonce.toml", "salt.key"):
        path = home / name
        held[name] = (path.read_bytes(), path.stat().st_mode) if path.exists() else None
    return held


def code_of(attempt: Callable[[], object]) -> str:
    with pytest.raises(IngestError) as caught:
        attempt()
    assert caught.value.message.count(". ") == 0
    return caught.value.code


def test_a_restored_home_is_the_one_that_was_saved(home, archive, tmp_path):
    """Bases, texts, files, sections, settings and keys; found by search; and a check has no finding."""
    restored = restore(archive, tmp_path / "new" / "home")
    assert (restored.num_documents, restored.num_files) == (3, 6)
    assert contents(tmp_path / "new" / "home") == contents(home)
    corpus = Corpus.open(tmp_path / "new" / "home", SETTINGS)
    hit = corpus.search("crimson pump", kb="other")[0]
    assert hit.text.endswith("The crimson pump stops at night.")
    corpus.close()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["home"]


def test_only_its_owner_may_read_a_backup(archive):
    """It holds documents and keys."""
    assert archive.stat().st_mode & 0o777 == 0o600


def test_a_backup_is_of_one_moment_while_others_change_the_home(home, tmp_path):
    """Documents removed and added between two of its files: it holds those that were there when it began."""
    busy = tmp_path / "home"
    shutil.copytree(home, busy)
    before = contents(busy)
    other = Corpus.open(busy, SETTINGS)
    added = tmp_path / "violet.md"
    added.write_text("The violet pump stops at night.")

    def meanwhile(stage: str, done: int, total: int) -> None:
        if done == 1:
            other.remove(other.resolve_document("amber").id)
            other.add(added)

    corpus = Corpus.open(busy, SETTINGS)
    done = corpus.backup(tmp_path / "b.zip", [busy / "readonce.toml", busy / "salt.key"], meanwhile)
    assert [document.name for document in corpus.documents("default")] == ["cobalt.md", "violet.md"]
    corpus.close()
    other.close()
    assert done.num_documents == 3
    restore(tmp_path / "b.zip", tmp_path / "again")
    assert contents(tmp_path / "again") == before
    assert not (busy / "snapshots").exists()


def test_another_database_in_the_home_is_saved_with_what_is_in_its_log(home, tmp_path):
    """A program that has it open has not written all of it into the file yet."""
    busy = tmp_path / "home"
    shutil.copytree(home, busy)
    with closing(sqlite3.connect(busy / "chats.sqlite3", isolation_level=None)) as chats:
        chats.execute("PRAGMA journal_mode = WAL")
        chats.execute("CREATE TABLE said (words TEXT)")
        chats.execute("INSERT INTO said VALUES ('hello')")
        corpus = Corpus.open(busy, SETTINGS)
        corpus.backup(tmp_path / "b.zip", [busy / "chats.sqlite3"])
        corpus.close()
    restore(tmp_path / "b.zip", tmp_path / "again")
    with closing(sqlite3.connect(tmp_path / "again" / "chats.sqlite3")) as chats:
        assert chats.execute("SELECT words FROM said").fetchall() == [("hello",)]


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_backup_is_refused_or_does_no_harm(home, archive, tmp_path_factory, data):
    """A changed byte, or a missing end: what is restored is what was saved, or nothing and one sentence."""
    folder = tmp_path_factory.mktemp("damaged")
    saved = archive.read_bytes()
    at = data.draw(st.integers(0, len(saved) - 1))
    if data.draw(st.booleans()):
        damaged = saved[:at]
    else:
        damaged = saved[:at] + bytes([saved[at] ^ data.draw(st.integers(1, 255))]) + saved[at + 1 :]
    (folder / "b.zip").write_bytes(damaged)
    code = None
    try:
        restore(folder / "b.zip", folder / "home")
    except IngestError as error:
        code = error.code
    assert code in {None, "backup_damaged", "not_a_backup", "backup_version"}
    if code is None:
        assert contents(folder / "home") == contents(home)
    else:
        assert [path.name for path in folder.iterdir()] == ["b.zip"]


def test_a_backup_whose_files_lie_before_its_beginning_is_damaged(archive, tmp_path):
    """The last record says where the list of files begins; all their places are counted from there."""
    damaged = bytearray(archive.read_bytes())
    at = damaged.rfind(b"PK\x05\x06") + 16
    damaged[at : at + 4] = struct.pack("<I", struct.unpack_from("<I", damaged, at)[0] + len(damaged))
    (tmp_path / "b.zip").write_bytes(damaged)
    with pytest.raises(IngestError) as caught:
        restore(tmp_path / "b.zip", tmp_path / "home")
    assert caught.value.code == "backup_damaged"
    assert [path.name for path in tmp_path.iterdir()] == ["b.zip"]


def rewritten(archive: Path, target: Path, change: Callable[[dict[str, object]], None], **files: bytes) -> Path:
    """The archive with another list of files, and more files."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w") as made:
        manifest = json.loads(source.read(MANIFEST_NAME))
        change(manifest)
        for name in source.namelist():
            if name != MANIFEST_NAME:
                made.writestr(name, source.read(name))
        for name, body in files.items():
            made.writestr(name, body)
        made.writestr(MANIFEST_NAME, json.dumps(manifest))
    return target


def test_a_backup_of_a_later_program_is_refused(archive, tmp_path):
    """Its base could not be read."""
    later = rewritten(archive, tmp_path / "b.zip", lambda manifest: manifest.update(store_version=999))
    assert code_of(lambda: restore(later, tmp_path / "home")) == "backup_version"
    other = rewritten(archive, tmp_path / "c.zip", lambda manifest: manifest.update(format="readonce-backup-9"))
    assert code_of(lambda: restore(other, tmp_path / "home")) == "backup_version"
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", "a//b", "."])
def test_a_backup_writes_nothing_outside_of_the_home(archive, tmp_path, name):
    """Names that lead out of it are refused before anything is unpacked."""
    import hashlib

    body = b"out"
    entry = {"name": name, "num_bytes": 3, "sha256": hashlib.sha256(body).hexdigest(), "mode": 0o600}
    bad = rewritten(archive, tmp_path / "b.zip", lambda manifest: manifest["members"].append(entry), **{name: body})
    assert code_of(lambda: restore(bad, tmp_path / "deep" / "home")) == "backup_damaged"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.zip"]


def test_a_home_with_something_in_it_is_given_up_only_when_asked(home, archive, tmp_path):
    """Refused without `replace`; with it the old home is gone, and the new one is whole."""
    taken = tmp_path / "home"
    corpus = Corpus.open(taken, SETTINGS)
    (tmp_path / "ivory.md").write_text("The ivory pump.")
    corpus.add(tmp_path / "ivory.md")
    corpus.close()
    before = contents(taken)
    assert code_of(lambda: restore(archive, taken)) == "home_not_empty"
    assert contents(taken) == before
    restore(archive, taken, replace=True)
    assert contents(taken) == contents(home)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "ivory.md"]


def test_a_home_in_use_is_not_replaced(home, archive, tmp_path):
    """Whoever has it open would go on in files that are not there any more."""
    taken = tmp_path / "home"
    shutil.copytree(home, taken)
    corpus = Corpus.open(taken, SETTINGS)
    assert code_of(lambda: restore(archive, taken, replace=True)) == "home_in_use"
    assert len(corpus.documents()) == 3
    corpus.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


def test_an_empty_folder_becomes_a_home(home, archive, tmp_path):
    (tmp_path / "home").mkdir()
    restore(archive, tmp_path / "home")
    assert contents(tmp_path / "home") == contents(home)


def test_what_a_killed_restore_left_is_cleared_by_who_opens_the_home(home, tmp_path):
    """A folder beside it that nobody works in."""
    mine = tmp_path / "home"
    shutil.copytree(home, mine)
    left = tmp_path / ".home.restore-0123"
    left.mkdir()
    (left / "documents.sqlite3").write_text("half")
    assert left_behind(mine) == [left]
    Corpus.open(mine, SETTINGS).close()
    assert not left.exists()


def test_a_backup_that_fails_leaves_the_one_before_it(home, archive, tmp_path, monkeypatch):
    """It takes its name only after it was read back."""
    target = tmp_path / "b.zip"
    shutil.copyfile(archive, target)
    corpus = Corpus.open(home, SETTINGS)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ingest.backup.verify", full)
    assert code_of(lambda: corpus.backup(target)) == "backup_failed"
    assert code_of(lambda: corpus.backup(home / "inside.zip")) == "backup_failed"
    corpus.close()
    assert verify(target).num_documents == 3
    assert [path.name for path in tmp_path.iterdir()] == ["b.zip"]


def test_a_file_that_is_no_backup_is_named_as_such(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("a", "b")
    for name, code in (("notes.txt", "not_a_backup"), ("other.zip", "not_a_backup"), ("missing", "not_found")):
        assert code_of(lambda name=name: restore(tmp_path / name, tmp_path / "home")) == code
