"""Whatever is added, replaced and removed, in whatever order: one truth is listed, shown, searched and kept."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import ingest.intake
from ingest.corpus import Corpus, IngestSettings
from ingest.document import Document, IngestError, Page
from ingest.index_file import load_index

SETTINGS = IngestSettings(embedder="hashing")
KBS = ("one", "two")
NAMES = ("amber.txt", "cobalt.txt", "crimson.txt")
WORDS = ("anvil", "bellows", "crucible", "dovetail", "escutcheon")


def read_here(path: Path, *arguments: object, name: str | None = None) -> Document:
    """Reads a text in this process: what is tested here is what comes after."""
    data = path.read_bytes()
    return Document(hashlib.sha256(data).hexdigest()[:16], name or path.name, "txt", (Page(1, data.decode()),))


def text_of(word: str) -> str:
    return f"The {word} hangs beside the door. Nobody but the keeper touches the {word} before noon."


class Changes(RuleBasedStateMachine):
    """Random changes to two bases; `held` says what must be there: the word of each text by (base, name)."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name) / "home"
        self.corpus = Corpus.open(self.home, SETTINGS)
        self.held: dict[tuple[str, str], str] = {}
        self.was: set[str] = set()

    def teardown(self) -> None:
        self.corpus.close()
        self.folder.cleanup()

    @rule(kb=st.sampled_from(KBS), name=st.sampled_from(NAMES), word=st.sampled_from(WORDS))
    def add(self, kb: str, name: str, word: str) -> None:
        """Same bytes: unchanged, or a duplicate that doubles nothing (C18). Other bytes: the old text goes (C17)."""
        path = Path(self.folder.name) / name
        path.write_text(text_of(word))
        before = self.held.get((kb, name))
        elsewhere = [key for key, held in self.held.items() if key[0] == kb and held == word and key[1] != name]
        added = self.corpus.add(path, kb=kb)
        self.was.add(word)
        if before == word:
            assert added.status == "unchanged"
        elif before is None and elsewhere:
            assert added.status == "duplicate"
        else:
            assert added.status == ("ok" if before is None else "replaced")
            if elsewhere:
                self.held.pop((kb, name), None)
            else:
                self.held[kb, name] = word

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """Counted: True once, then False (C19)."""
        kb, name = data.draw(st.sampled_from(sorted(self.held)))
        doc_id = self.corpus.resolve_document(name, kb).id
        assert self.corpus.remove(doc_id, kb) is True
        assert self.corpus.remove(doc_id, kb) is False
        del self.held[kb, name]

    @rule()
    def open_again(self) -> None:
        """A restart changes nothing."""
        self.corpus.close()
        self.corpus = Corpus.open(self.home, SETTINGS)

    @rule()
    def lose_the_index(self) -> None:
        """FAISS is a copy: without it the next search makes it anew (C20)."""
        (self.home / "passages.faiss").unlink(missing_ok=True)

    @invariant()
    def one_truth(self) -> None:
        listed = {(each.kb, each.name): self.corpus.text(each.id) for each in self.corpus.documents()}
        assert listed == {key: text_of(word) for key, word in self.held.items()}
        there = set(self.held.values())
        for kb in KBS:
            for word in WORDS:
                texts = [hit.text for hit in self.corpus.search(word, kb=kb, k=50) if word in hit.text]
                # Once, however often it was added; and not at all where it was removed (C16, C18).
                assert texts == ([text_of(word)] if word in [w for (k, _), w in self.held.items() if k == kb] else [])
        assert len(list((self.home / "files").iterdir())) == len(there)
        stored = {row[0] for row in self.corpus._database.connection.execute("SELECT id FROM passages")}
        assert len(stored) == len(there)
        index = load_index(self.home / "passages.faiss")
        assert index is None or set(map(int, index.ids)) == stored
        assert self.corpus.check().findings == ()
        data = b"".join(path.read_bytes() for path in self.home.rglob("*") if path.is_file())
        for word in self.was - there:
            assert word[2:].encode() not in data


def test_after_any_changes_there_is_one_truth(monkeypatch):
    """Lists, texts, files, searches, keywords and vectors agree (cases C16 to C20)."""
    monkeypatch.setattr(ingest.intake, "read", read_here)
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Changes, settings=settings(max_examples=12, stateful_step_count=12, deadline=None))


def test_a_replacement_is_seen_whole_or_not_at_all(tmp_path, monkeypatch):
    """While one replaces a document over and over, each look finds one version in list, text and search (case C17)."""
    monkeypatch.setattr(ingest.intake, "read", read_here)
    home, path = tmp_path / "home", tmp_path / "manual.txt"
    writer, reader = Corpus.open(home, SETTINGS), Corpus.open(home, SETTINGS)
    path.write_text(text_of("version0") * 20)
    writer.add(path)
    ended = threading.Event()
    seen: list[set[str]] = []

    def look() -> None:
        while not ended.is_set() or len(seen) < 2:
            hits = reader.search("keeper touches", k=50)
            seen.append({word for hit in hits for word in hit.text.split() if word.startswith("version")})
            assert len(reader.documents()) == 1

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(1, 15):
            path.write_text(text_of(f"version{number}") * 20)
            assert writer.add(path).status == "replaced"
    finally:
        ended.set()
        looking.join()
    assert len(seen) >= 2
    assert {len(versions) for versions in seen} == {1}
    numbers = [int(next(iter(versions)).removeprefix("version")) for versions in seen]
    assert numbers == sorted(numbers)
    for corpus in (writer, reader):
        corpus.close()


@pytest.mark.parametrize("dimension", [64, 256, 512])
def test_another_embedder_of_any_dimension_is_named_and_rebuilt_for(tmp_path, monkeypatch, dimension):
    """Smaller, of the same size under another name, or larger: refused by name, then in place (case C21)."""
    from ingest.embed_hashing import HashingEmbedder

    class Other(HashingEmbedder):
        name = "other"

    monkeypatch.setattr(ingest.intake, "read", read_here)
    home, path = tmp_path / "home", tmp_path / "amber.txt"
    path.write_text(text_of("anvil"))
    corpus = Corpus.open(home, SETTINGS)
    added = corpus.add(path)
    corpus.search("anvil")
    other = Corpus.open(home, SETTINGS, embedder=Other(dimension))
    with pytest.raises(IngestError, match=rf"embedder hashing \(256 dimensions\).*other \({dimension}\)") as caught:
        other.search("anvil")
    assert caught.value.code == "embedder_changed"
    assert corpus.search("anvil")[0].doc_id == added.document_id
    assert other.rebuild() == 1
    hit = other.search("anvil")[0]
    expected = other.embedder.embed_question("anvil") @ other.embedder.embed_question(hit.text)
    assert (hit.doc_id, hit.dense_score) == (added.document_id, pytest.approx(float(expected), abs=1e-5))
    index = load_index(home / "passages.faiss")
    assert index is not None
    assert (index.state.embedder, index.state.dimension) == ("other", dimension)
    for each in (corpus, other):
        each.close()
