"""A search is made once for each state of a base: what was found a moment ago is found again without looking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest import searched
from ingest.corpus import Corpus, IngestSettings
from ingest.recent import RecentHits, Searched
from ingest.rerank import MOST_WEIGHED
from ingest.scope import Filters, Scope

SETTINGS = IngestSettings(embedder="hashing")
FERRY = "# Ferry\n\nThe ferry to Sandholm leaves the north quay at 05:50 every morning.\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    made = Corpus.open(tmp_path / "home", SETTINGS)
    (tmp_path / "ferry.md").write_text(FERRY)
    made.add(tmp_path / "ferry.md")
    yield made
    made.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The searches that were made, each by what was asked."""
    asked: list[Any] = []
    search = searched.search

    def counted(connection: Any, lookup: Any, embedder: Any, question: str, *more: Any) -> Any:
        asked.append((question, *more))
        return search(connection, lookup, embedder, question, *more)

    monkeypatch.setattr(searched, "search", counted)
    return asked


def test_the_same_search_is_made_once_and_anything_else_anew(corpus: Corpus, made: list[Any]) -> None:
    """Other words, another scope, another number, further wordings, the dictionary; who weighs is asked each time.

    Who weighs is shown more than the ten that are given.
    """
    weighed: list[int] = []

    def weigh(texts: Any) -> Any:
        weighed.append(len(texts))
        return [None] * len(texts)

    hits = corpus.search("When does the ferry leave?")
    assert [hit.text for hit in hits] == [hit.text for hit in corpus.search("When does the ferry leave?")]
    assert corpus.search("When does the ferry leave?", weigh=weigh) == hits
    assert corpus.search("When does the ferry leave?", weigh=weigh) == hits
    assert corpus.search("When does the ferry leave?", k=MOST_WEIGHED)[:10] == hits
    assert len(made) == 2
    corpus.search("Which quay?")
    corpus.search("When does the ferry leave?", kb="other")
    corpus.search("When does the ferry leave?", kb=None)
    corpus.search("When does the ferry leave?", k=20)
    corpus.search("When does the ferry leave?", also=("departure of the ferry",))
    corpus.search("When does the ferry leave?", across=True)
    corpus.search("When does the ferry leave?", filters=Filters(tags=("boats",)))
    assert len(made) == 9


def test_what_changes_the_base_is_found_at_once(corpus: Corpus, tmp_path: Path) -> None:
    """A document that comes, is tagged, is replaced, and goes; by this process or by another."""
    question = "When does the ferry leave?"
    other = Corpus.open(tmp_path / "home", SETTINGS)
    (tmp_path / "fares.md").write_text("# Fares\n\nThe ferry costs eleven marks; children leave nothing behind.\n")
    boats = Filters(tags=("boats",))
    for one, change in (
        (corpus, lambda: other.add(tmp_path / "fares.md")),
        (other, lambda: corpus.change_tags(other.documents("default")[0].id, "default", add=["boats"])),
        (corpus, lambda: (tmp_path / "ferry.md").write_text(FERRY.replace("05:50", "06:10"))),
        (corpus, lambda: other.add(tmp_path / "ferry.md")),
        (other, lambda: corpus.remove(corpus.documents("default")[0].id, "default")),
    ):
        one.search(question)
        one.search(question, filters=boats)
        change()
        fresh = Corpus.open(tmp_path / "home", SETTINGS)
        assert one.search(question) == fresh.search(question)
        assert one.search(question, filters=boats) == fresh.search(question, filters=boats)
        fresh.close()
    other.close()


def test_only_the_last_searches_are_kept() -> None:
    """The one that was looked at longest ago goes first."""
    recent = RecentHits(2)
    one, two, three = (
        Searched("b", 1, "e", question, Scope(None, None), 10, (), False) for question in ("one", "two", "three")
    )
    recent.keep(one, ())
    recent.keep(two, ())
    assert recent.get(one) == ()
    recent.keep(three, ())
    assert (recent.get(one), recent.get(two), recent.get(three)) == ((), None, ())
