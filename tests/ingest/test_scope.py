"""Filters are looked at before ranking: what they leave is ranked as if nothing else were there."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pdf_maker import pdf

from ingest.corpus import Corpus
from ingest.document import IngestError
from ingest.scope import Filters

WORDS = ["cobalt", "crimson", "amber", "pump", "boiler", "valve", "night", "dawn", "noon"]
DAYS = [date(2026, 1, day) for day in (1, 10, 20, 31)]
TAGS = ["contract", "draft"]


@pytest.fixture
def library(corpus: Corpus, write) -> Corpus:
    """Eight documents of six pages in two bases, with tags and days; every word is on many pages."""
    chosen = random.Random(3)
    for number in range(8):
        pages = [" ".join(chosen.choices(WORDS, k=6)) + f" page {page} of book {number}." for page in range(1, 7)]
        added = corpus.add(write(f"{number}.pdf", pdf(pages)), kb="other" if number == 7 else "default")
        kb = "other" if number == 7 else "default"
        corpus.change_tags(added.document_id, kb, add=[tag for tag in TAGS if chosen.random() < 0.5])
        day = datetime.combine(DAYS[number % 4], datetime.min.time(), UTC) + timedelta(hours=23, minutes=59)
        corpus._database.connection.execute(
            "UPDATE members SET added_at = ? WHERE document_id = ?",
            (day.isoformat(timespec="milliseconds"), added.document_id),
        )
    return corpus


filters = st.builds(
    Filters,
    pages=st.lists(st.tuples(st.integers(1, 4), st.integers(2, 7)), max_size=2).map(tuple),
    since=st.one_of(st.none(), st.sampled_from(DAYS)),
    until=st.one_of(st.none(), st.sampled_from(DAYS)),
    tags=st.lists(st.sampled_from(TAGS), max_size=2, unique=True).map(tuple),
)


def fits(corpus: Corpus, hit, wanted: Filters) -> bool:
    """The same said of one hit, in the plainest way."""
    document = corpus.document(hit.doc_id, "default")
    day = datetime.fromisoformat(document.added_at).date()
    return (
        (not wanted.pages or any(first <= hit.page <= last for first, last in wanted.pages))
        and (wanted.since is None or wanted.since <= day)
        and (wanted.until is None or day <= wanted.until)
        and set(wanted.tags) <= set(document.tags)
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True), st.integers(1, 12))
def test_a_filtered_search_is_the_whole_search_with_the_rest_left_out(library, wanted, words, k):
    """No hit is outside, and none inside is missed for one outside that would have been better."""
    question = " ".join(words)
    everything = library.search(question, kb="default", k=1000)
    expected = [hit for hit in everything if fits(library, hit, wanted)]
    found = library.search(question, kb="default", k=k, filters=wanted)
    assert [(hit.doc_id, hit.passage, hit.score) for hit in found] == [
        (hit.doc_id, hit.passage, pytest.approx(hit.score, abs=1e-6)) for hit in expected[:k]
    ]


def test_days_and_tags_are_those_of_the_base_that_is_asked(library, write):
    """The same bytes in another base are another member: with other tags, added on another day."""
    path = write("same.md", "The violet turbine hums.")
    library.add(path, kb="default")
    added = library.add(path, kb="other")
    library.change_tags(added.document_id, "other", add=["Contract "])
    today = datetime.now(UTC).date()
    contract, earlier = Filters(tags=("contract",)), Filters(until=today - timedelta(days=1))

    def is_found(kb: str, wanted: Filters) -> bool:
        return added.document_id in [hit.doc_id for hit in library.search("violet turbine", kb=kb, filters=wanted)]

    assert (is_found("other", contract), is_found("default", contract)) == (True, False)
    assert (is_found("default", earlier), is_found("default", Filters(since=today, until=date.max))) == (False, True)
    library._database.connection.execute(
        "UPDATE members SET added_at = '2026-01-01T00:00:00.000+00:00' WHERE kb = 'other'"
    )
    assert (is_found("other", Filters(since=today)), is_found("default", Filters(since=today))) == (False, True)


def test_a_change_of_tags_is_seen_by_the_next_search(corpus, write):
    """Though nothing else changed, and the search before was the same."""
    added = corpus.add(write("a.md", "The cobalt pump stops."))
    search = Filters(tags=("contract",))
    assert corpus.search("cobalt pump", filters=search) == ()
    assert corpus.change_tags(added.document_id, add=["Contract", "2026"]) == ("2026", "contract")
    assert len(corpus.search("cobalt pump", filters=search)) == 1
    assert corpus.matching(search) == {added.document_id}
    assert corpus.change_tags(added.document_id, remove=["contract"]) == ("2026",)
    assert corpus.search("cobalt pump", filters=search) == ()


def test_what_takes_a_documents_place_bears_its_tags(corpus, write):
    """A new version is found by the old one's tags; after a removal a new document of the name has none."""
    old = corpus.add(write("a.md", "The cobalt pump stops."))
    corpus.change_tags(old.document_id, add=["contract"])
    new = corpus.add(write("a.md", "The cobalt pump stops at night."))
    assert new.status == "replaced"
    assert corpus.document(new.document_id).tags == ("contract",)
    corpus.remove(new.document_id)
    again = corpus.add(write("a.md", "The cobalt pump stops."))
    assert corpus.document(again.document_id).tags == ()
    assert corpus._database.connection.execute("SELECT count(*) FROM tags").fetchone()[0] == 0


@pytest.mark.parametrize("words", ["", "  ", "a,b", "x" * 65, "a\nb"])
def test_a_tag_that_could_not_be_written_again_is_refused(corpus, write, words):
    added = corpus.add(write("a.md", "The cobalt pump stops."))
    with pytest.raises(IngestError) as caught:
        corpus.change_tags(added.document_id, add=["good", words])
    assert caught.value.code == "bad_tag"
    assert corpus.document(added.document_id).tags == ()


def test_a_document_that_is_not_in_the_base_is_given_no_tag(corpus, write):
    added = corpus.add(write("a.md", "The cobalt pump stops."))
    with pytest.raises(IngestError) as caught:
        corpus.change_tags(added.document_id, "other", add=["contract"])
    assert caught.value.code == "not_found"
