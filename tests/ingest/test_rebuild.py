"""All passages are made anew with another embedder while the old ones serve, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.embed import BatchDone, Vectors
from ingest.embed_hashing import HashingEmbedder

SETTINGS = IngestSettings(embedder="hashing")


class Other(HashingEmbedder):
    """Another embedder: counts what it embeds, and does `meanwhile` before the batch that is numbered."""

    name = "other"

    def __init__(self, meanwhile: Callable[[int], None] = lambda batch: None) -> None:
        super().__init__(dimension=64)
        self.meanwhile = meanwhile
        self.batches: list[list[str]] = []

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        self.batches.append(list(texts))
        self.meanwhile(len(self.batches))
        return super().embed_passages(texts, batch_done)


@pytest.fixture
def home(tmp_path: Path, write: Callable[[str, str], Path]) -> Path:
    corpus = Corpus.open(tmp_path / "home", SETTINGS)
    for colour in ("amber", "cobalt", "crimson"):
        corpus.add(write(f"{colour}.md", f"The {colour} pump stops at night."))
    corpus.close()
    return tmp_path / "home"


def found(corpus: Corpus, question: str) -> list[str]:
    names = {document.id: document.name for document in corpus.documents()}
    return [names[hit.doc_id] for hit in corpus.search(question)]


def test_documents_that_come_and_go_meanwhile_are_taken_along_and_left_out(home, write):
    """One is added and one removed after the first batch: the new passages are those of what is there at the end."""
    serving = Corpus.open(home, SETTINGS)

    def change(batch: int) -> None:
        if batch == 1:
            serving.add(write("violet.md", "The violet boiler starts at dawn."))
            serving.remove(serving.resolve_document("amber").id)

    embedder = Other(change)
    rebuilding = Corpus.open(home, SETTINGS, embedder=embedder)
    assert rebuilding.rebuild() == 3
    assert sorted(document.name for document in rebuilding.documents()) == ["cobalt.md", "crimson.md", "violet.md"]
    assert found(rebuilding, "violet boiler") == ["violet.md"]
    assert found(rebuilding, "amber") == []
    assert rebuilding.check().findings == ()
    assert [len(batch) for batch in embedder.batches] == [3, 1]
    assert not (home / "rebuild.sqlite3").exists()
    rebuilding.close()
    serving.close()


def test_the_old_passages_serve_until_the_new_ones_are_all_there(home):
    """Whoever searches during a rebuild finds by the old vectors; afterwards the mismatch is named."""
    serving = Corpus.open(home, SETTINGS)
    seen = []
    rebuilding = Corpus.open(
        home, SETTINGS, embedder=Other(lambda batch: seen.append(found(serving, "cobalt pump")[0]))
    )
    rebuilding.rebuild()
    assert seen == ["cobalt.md"]
    with pytest.raises(IngestError) as caught:
        serving.search("cobalt pump")
    assert caught.value.code == "embedder_changed"
    rebuilding.close()
    serving.close()


def test_who_is_set_to_the_new_embedder_is_served_by_the_old_one_meanwhile(home, monkeypatch):
    """A page that was started after the setting changed answers during the rebuild, and after it."""
    monkeypatch.setattr(
        "ingest.embed_choice.open_embedder",
        lambda name, **_: {"hashing": HashingEmbedder(), "other": Other()}[name],
    )
    page = Corpus.open(home, IngestSettings(embedder="other"))
    with pytest.raises(IngestError, match="readonce rebuild"):
        page.search("cobalt pump")
    seen = []
    rebuilding = Corpus.open(home, SETTINGS, embedder=Other(lambda batch: seen.append(found(page, "cobalt pump")[0])))
    rebuilding.rebuild()
    assert seen == ["cobalt.md"]
    assert found(page, "cobalt pump")[0] == "cobalt.md"
    assert page.embedder.name == "other"
    rebuilding.close()
    page.close()


class Killed(BaseException):
    """As if the process had ended here."""


def test_a_killed_rebuild_goes_on_where_it_was(home, write):
    """What had a vector is not embedded again, and the check says how to go on until then."""
    corpus = Corpus.open(home, SETTINGS)
    corpus.add(write("long.md", "\n\n".join(f"# Part {n}\n\nValve number {n} opens." for n in range(80))))
    corpus.close()

    def kill(batch: int) -> None:
        if batch == 2:
            raise Killed

    first = Other(kill)
    corpus = Corpus.open(home, SETTINGS, embedder=first)
    with pytest.raises(Killed):
        corpus.rebuild()
    report = corpus.check()
    assert report.findings == ()
    assert report.notes == ("A rebuild with other is not finished: `readonce rebuild` goes on where it was.",)
    corpus.close()
    second = Other()
    corpus = Corpus.open(home, SETTINGS, embedder=second)
    assert corpus.rebuild() == 83
    assert len(first.batches[0]) == 64
    assert sum(map(len, second.batches)) == 83 - 64
    assert set(first.batches[0]) & {text for batch in second.batches for text in batch} == set()
    vectors = {row[0] for row in corpus._database.connection.execute("SELECT length(vector) FROM passages")}
    assert vectors == {4 * 64}
    assert corpus.check().notes == ()
    corpus.close()


def test_a_rebuild_for_another_embedder_begins_anew(home):
    """What an interrupted one made is of no use to it."""

    def kill(batch: int) -> None:
        raise Killed

    corpus = Corpus.open(home, SETTINGS, embedder=Other(kill))
    with pytest.raises(Killed):
        corpus.rebuild()
    corpus.close()
    again = HashingEmbedder(dimension=32)
    corpus = Corpus.open(home, SETTINGS, embedder=again)
    assert corpus.rebuild() == 3
    stored = corpus._database.connection.execute("SELECT vector FROM passages ORDER BY id LIMIT 1").fetchone()[0]
    texts = {hit.text for hit in corpus.search("pump")}
    assert any(np.array_equal(np.frombuffer(stored, "<f4"), again.embed_question(text)) for text in texts)
    corpus.close()


def test_two_rebuilds_at_once_are_refused(home):
    corpus = Corpus.open(home, SETTINGS)
    with FileLock(home / "rebuild.lock"), pytest.raises(IngestError) as caught:
        corpus.rebuild()
    assert caught.value.code == "rebuild_running"
    corpus.close()


def test_a_search_that_a_rebuild_overtakes_is_made_again(home, monkeypatch):
    """The base's embedder was chosen, and changed before the search began: nobody sees that."""
    opened = {"hashing": HashingEmbedder(), "other": Other()}
    monkeypatch.setattr("ingest.embed_choice.open_embedder", lambda name, **_: opened[name])
    page = Corpus.open(home, IngestSettings(embedder="auto"))
    rebuilding = Corpus.open(home, SETTINGS, embedder=opened["other"])
    chosen = page._embedders.in_use
    overtaken = []

    def overtake() -> HashingEmbedder:
        embedder = chosen()
        if not overtaken:
            overtaken.append(rebuilding.rebuild())
        return embedder

    monkeypatch.setattr(page._embedders, "in_use", overtake)
    assert found(page, "cobalt pump")[0] == "cobalt.md"
    assert overtaken == [3]
    assert page.embedder.name == "other"
    rebuilding.close()
    page.close()
