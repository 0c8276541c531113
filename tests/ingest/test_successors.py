"""What a replaced document leads to, for as long as something bears its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.corpus import Corpus
from ingest.settings import IngestSettings


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    made = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing"))
    yield made
    made.close()


def add(corpus: Corpus, path: Path, words: str, kb: str = "default") -> str:
    path.write_text(words)
    return corpus.add(path, kb=kb).document_id


def led(corpus: Corpus, doc_id: str) -> list[tuple[str, str, str]]:
    return [(one.kb, one.document_id, one.name) for one in corpus.successors(doc_id)]


def test_every_earlier_version_leads_to_the_one_of_now(corpus: Corpus, tmp_path: Path) -> None:
    """However often it was replaced; one that comes back is no earlier version any more."""
    path = tmp_path / "plan.txt"
    first, second, third = (add(corpus, path, f"The {word} plan.") for word in ("first", "second", "third"))
    assert led(corpus, first) == led(corpus, second) == [("default", third, "plan.txt")]
    assert led(corpus, third) == []
    assert add(corpus, path, "The first plan.") == first
    assert led(corpus, first) == []
    assert led(corpus, third) == led(corpus, second) == [("default", first, "plan.txt")]


def test_each_base_has_its_own(corpus: Corpus, tmp_path: Path) -> None:
    """Replaced in one, it may go on in another."""
    path = tmp_path / "plan.txt"
    old = add(corpus, path, "The plan.", "a")
    add(corpus, path, "The plan.", "b")
    new = add(corpus, path, "Another plan.", "b")
    assert led(corpus, old) == [("b", new, "plan.txt")]


def test_what_was_removed_leads_nowhere_and_nothing_of_it_is_kept(corpus: Corpus, tmp_path: Path) -> None:
    """Nor do its earlier versions, a file of that name that comes later is another one."""
    path = tmp_path / "plan.txt"
    old, new = add(corpus, path, "The plan."), add(corpus, path, "Another plan.")
    corpus.remove(new)
    assert corpus._database.connection.execute("SELECT count(*) FROM replaced").fetchone()[0] == 0
    add(corpus, path, "A third plan.")
    assert led(corpus, old) == led(corpus, new) == []


def test_a_file_that_moved_still_follows_its_earlier_versions(corpus: Corpus, tmp_path: Path) -> None:
    """They lead to it by its new name."""
    path, moved = tmp_path / "plan.txt", tmp_path / "later.txt"
    old, new = add(corpus, path, "The plan."), add(corpus, path, "Another plan.")
    path.rename(moved)
    assert corpus.add(moved).document_id == new
    assert led(corpus, old) == [("default", new, "later.txt")]


def test_a_base_made_before_replaced_ones_were_kept_is_upgraded_in_place(corpus: Corpus, tmp_path: Path) -> None:
    """Its documents stay, and from now on it keeps them."""
    old = add(corpus, tmp_path / "plan.txt", "The plan.")
    corpus._database.connection.executescript("DROP TABLE replaced; PRAGMA user_version = 4")
    corpus.close()
    again = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing"))
    new = add(again, tmp_path / "plan.txt", "Another plan.")
    assert led(again, old) == [("default", new, "plan.txt")]
    again.close()
