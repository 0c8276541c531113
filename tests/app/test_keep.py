"""Looking after a home from the command line: what is found, mended, saved and brought back, and the exit codes."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fpdf import FPDF
from library import LIBRARY, Run, write

from app.assistant import Assistant
from app.keep import carried, check, secrets
from app.power import LEDGER_NAME, EngineStatus, Power
from app.reader import TOKENS_NAME, prefix_name
from app.settings import Settings
from engine.base import Prefix
from engine.kept import names_of, on_shelf
from engine.ledger import Ledger
from engine.shelf import Facts, Shelf
from engine.tokens import _SCHEMA as TOKENS_SCHEMA
from ingest.corpus import Corpus
from ingest.document import Section

SECTION = Section(1, "t", 0, 1, 1, 1, 1, 1, 1)


@pytest.fixture
def home(command: Run, tmp_path: Path) -> Path:
    """A home with one document."""
    assert command("add", str(write(tmp_path, "library.md", LIBRARY)))[0] == 0
    return tmp_path / "home"


def checked(command: Run, *flags: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = command("check", "--json", *flags)
    return code, json.loads(out)


def test_check_says_that_all_is_right(home, command):
    """Exit 0; a sentence for people, keys for programs."""
    code, out, err = command("check")
    assert (code, out, err) == (0, "1 document, 4 passages: all is right\n", "")
    code, report = checked(command)
    assert (code, report) == (0, {"documents": 1, "passages": 4, "findings": [], "notes": [], "is_sound": True})


def test_check_names_each_fault_and_mends_it_when_told(home, command):
    """Exit 1 while something is wrong, 0 once it is mended; nothing is touched without --repair."""
    with closing(sqlite3.connect(home / "documents.sqlite3")) as connection, connection:
        connection.execute("DELETE FROM keywords")
    for _ in range(2):
        code, report = checked(command)
        assert (code, [finding["code"] for finding in report["findings"]]) == (1, ["keywords_differ"])
        assert report["findings"][0]["mended"] is False
    code, out, _ = command("check", "--repair")
    assert code == 0
    assert out.startswith("keywords_differ: Passage 1 of ")
    assert out.endswith("It is mended.\n1 document, 4 passages: all is right\n")
    assert checked(command)[0] == 0


def test_check_finds_what_is_kept_of_documents_that_have_gone(home, command, settings, tmp_path):
    """Token ids, names and registered prefixes, as a process that was killed during `rm` leaves them (case C16)."""
    corpus = Corpus.open(home, settings.ingest)
    (document,) = corpus.documents()
    corpus.close()
    mine, gone = (prefix_name("default", name, [SECTION]) for name in ("library.md", "gone.md"))
    with closing(sqlite3.connect(home / TOKENS_NAME)) as connection, connection:
        connection.executescript(TOKENS_SCHEMA)
        for doc_id in (document.id, "0123456789abcdef"):
            key = doc_id.encode()
            connection.execute("INSERT INTO tokens VALUES (?, ?, ?)", (key, b"ids", b"digest"))
            connection.execute("INSERT INTO places VALUES (?, ?, ?)", (key, doc_id, key))
    ledger = Ledger(home / LEDGER_NAME)
    ledger.forget(lambda handle, name: False)
    ledger.close()
    with closing(sqlite3.connect(home / LEDGER_NAME)) as connection, connection:
        apart = prefix_name("default/measured", "library.md", [SECTION])
        for name in (mine, gone, apart):
            connection.execute("INSERT INTO asked VALUES (?, ?, 'i', 0, NULL, NULL)", (name, name))
    now = time.time()
    shelved(home, ("p1", mine, now), ("p2", gone, now), ("p3", mine, now - 9_999))
    code, report = checked(command)
    assert code == 1
    assert {finding["code"] for finding in report["findings"]} == {"ids_left", "names_left", "prefixes_left"}
    code, report = checked(command, "--repair")
    assert (code, all(finding["mended"] for finding in report["findings"])) == (0, True)
    assert checked(command)[1]["findings"] == []
    assert names_of(home / LEDGER_NAME) == {mine, apart}
    with closing(sqlite3.connect(home / TOKENS_NAME)) as connection:
        assert connection.execute("SELECT document FROM places").fetchall() == [(document.id,)]
        assert connection.execute("SELECT count(*) FROM tokens").fetchone() == (1,)


def shelved(home: Path, *entries: tuple[str, str, float]) -> None:
    """Registers prefixes (handle, name, time) as an engine does that has ended."""
    with closing(Shelf(home / "engine" / "plugin")) as shelf:
        for handle, name, created in entries:
            facts = Facts(handle, "default", name, 4, None, False, "", created, created, created, 0, True, ())

            def put(rows: Any, facts: Facts = facts) -> None:
                rows.write_ids(facts.id, np.arange(4, dtype=np.int32))
                rows.put(facts)

            shelf.run(put)


def test_nothing_of_a_removed_document_comes_back_with_the_next_engine(home, settings):
    """Where no engine runs, the prefixes that the next one would read again are erased, ids and all (case C16)."""
    mine, other = (prefix_name("default", name, [SECTION]) for name in ("library.md", "other.md"))
    shelved(home, ("p1", mine, 1.0), ("p2", other, 1.0))
    assistant = Assistant.open(settings)
    assistant.remove(assistant.find("library.md").id)
    assistant.corpus.close()
    folder = home / "engine" / "plugin"
    assert [facts.name for facts in on_shelf(folder)] == [other]
    assert [path.name for path in folder.glob("*.i32")] == ["p2.i32"]


def test_a_home_moves_whole_with_backup_and_restore(home, command, tmp_path, monkeypatch):
    """Documents, settings, keys and other databases; caches are left; a restored home is sound and answers."""
    (home / "readonce.toml").write_text('embedder = "hashing"\n')
    for key in (home / "salt.key", home / "engine" / "plugin" / "salt.key"):
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_bytes(b"k" * 32)
    with closing(sqlite3.connect(home / "chats.sqlite3")) as chats, chats:
        chats.execute("CREATE TABLE said (words TEXT)")
    command("search", "map cellar")
    archive = tmp_path / "saved.zip"
    code, out, err = command("backup", str(archive))
    assert code == 0
    assert "1 document, 7 files" in out
    assert "engine/plugin/salt.key, people.sqlite3, readonce.toml, salt.key" in err
    code, out, err = command("restore", str(archive))
    assert (code, out) == (1, "")
    assert err.startswith("readonce: ")
    assert "--replace" in err
    code, out, _ = command("restore", str(archive), "--into", str(tmp_path / "moved"), "--json")
    assert code == 0
    assert json.loads(out)["num_documents"] == 1
    moved = {str(path.relative_to(tmp_path / "moved")) for path in (tmp_path / "moved").rglob("*") if path.is_file()}
    (file,) = (path.name for path in (home / "files").iterdir())
    assert moved == {
        "documents.sqlite3", f"files/{file}", "readonce.toml", "salt.key", "chats.sqlite3", "engine/plugin/salt.key",
        "people.sqlite3",
    }  # fmt: skip
    monkeypatch.setenv("READONCE_HOME", str(tmp_path / "moved"))
    assert checked(command)[0] == 0
    assert "map" in command("search", "map cellar")[1].lower()


def test_what_is_carried_is_all_but_what_is_made_anew(tmp_path):
    """A file that nobody has heard of is carried: it may be somebody's."""
    kept = ["readonce.toml", "salt.key", "chats.sqlite3", "notes/a.txt", "engine/plugin/salt.key"]
    kept += ["people.sqlite3", "page_secret", "chats/t1/e1", "chats/t1/e2"]
    left = ["passages.faiss", TOKENS_NAME, LEDGER_NAME, "logs/page.log", "engine/engine.log", "uploads/a/b.pdf"]
    left += ["chats.sqlite3-wal", "files/a.pdf", "documents.sqlite3", f"{TOKENS_NAME}-wal", "eval/retrieval/x"]
    for name in kept + left:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    files = carried(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in files} == set(kept)
    secret = {
        "readonce.toml",
        "salt.key",
        "engine/plugin/salt.key",
        "people.sqlite3",
        "page_secret",
        "chats.sqlite3",
        "chats",
    }
    assert set(secrets(tmp_path, files)) == secret


def test_a_home_whose_engine_runs_is_not_replaced(home, command, tmp_path, monkeypatch):
    """The engine would go on with sockets and keys that are not there any more."""
    archive = tmp_path / "saved.zip"
    assert command("backup", str(archive), "--json")[0] == 0
    monkeypatch.setattr(Power, "status", lambda self: EngineStatus(True))
    code, out, err = command("restore", str(archive), "--replace")
    assert (code, out) == (1, "")
    assert "readonce engine --stop" in err


def test_rebuild_says_what_it_did(home, command):
    """The counts, and the embedder's name."""
    code, out, _ = command("rebuild")
    assert (code, out) == (0, "1 document, 4 passages embedded anew with hashing\n")


def left_names(assistant: Assistant) -> list[str]:
    return [finding.code for finding in check(assistant, repair=False).findings]


def remembered(settings: Settings, *files: str, knows: Callable[[str], bool] = lambda name: True) -> None:
    """As a question about each file's first section leaves it."""
    with closing(Ledger(settings.home / LEDGER_NAME, knows=knows)) as ledger:
        for number, file in enumerate(files):
            prefix = Prefix((1, 2, number), "default", prefix_name("default", file, [SECTION]))
            ledger.settle(prefix, instance="i", cached_tokens=0, first_token_ms=1.0, began_s=time.time())


def test_an_answer_that_ends_after_its_document_was_removed_leaves_no_name(settings, tmp_path):
    """A guide or a question under way goes on: what it read is not remembered, `check` finds nothing (case C16)."""
    assistant = Assistant.open(settings)
    added = assistant.add(write(tmp_path, "library.md", LIBRARY))
    assistant.remove(added.document_id)
    remembered(settings, "library.md", knows=assistant.power.knows)
    assert left_names(assistant) == []
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    remembered(settings, "library.md", knows=assistant.power.knows)
    assert names_of(settings.home / LEDGER_NAME) == {"default/library.md/1"}
    assistant.corpus.close()
    assert assistant.power.knows("default/library.md/1")


def empty_page() -> bytes:
    pdf = FPDF()
    pdf.add_page()
    return bytes(pdf.output())


@pytest.mark.parametrize("way", ["moved", "by another's bytes", "by an empty page", "by another text"])
def test_replacing_and_moving_leave_nothing_of_what_was_there(settings, tmp_path, way):
    """Whatever comes in its place: token ids, names and prefixes of the old text go (case C16)."""
    assistant = Assistant.open(settings)
    path = write(tmp_path, "old.md", LIBRARY)
    assistant.add(path)
    assistant.add(write(tmp_path, "other.md", "Another text."))
    remembered(settings, "old.md", "other.md")
    shelved(settings.home, ("p1", "default/old.md/1", time.time()), ("p2", "default/other.md/1", time.time()))
    if way == "moved":
        assert assistant.add(path.rename(tmp_path / "new.md")).status == "ok"
    else:
        contents = {
            "by another's bytes": b"Another text.",
            "by an empty page": empty_page(),
            "by another text": b"New.",
        }
        path.write_bytes(contents[way])
        assert assistant.add(path).status == ("no_text" if way == "by an empty page" else "replaced")
    assert left_names(assistant) == []
    assert [facts.name for facts in on_shelf(settings.home / "engine" / "plugin")] == ["default/other.md/1"]
    assert "default/other.md/1" in names_of(settings.home / LEDGER_NAME)
    assistant.corpus.close()
