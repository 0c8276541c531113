"""Passages that follow each other on a page are one place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.corpus import Corpus
from ingest.neighbours import MOST_PASSAGES, places
from ingest.search import Hit

TEXT = "".join(chr(97 + number % 26) for number in range(400))


def text(doc_id: str, start: int, end: int) -> str:
    return TEXT[start:end]


def hit(passage: int, page: int = 1, doc_id: str = "a", score: float = 0.5) -> Hit:
    start = passage * 10
    return Hit(doc_id, passage, page, None, start, start + 9, score, TEXT[start : start + 9], 0.4, 1, 0.5)


hits = st.lists(
    st.builds(hit, st.integers(0, 30), st.integers(1, 2), st.sampled_from("ab")),
    unique_by=lambda one: (one.doc_id, one.passage),
    max_size=20,
)


@given(hits)
def test_every_passage_found_is_in_a_place_and_no_place_has_what_was_not_found(found):
    """Places come in the order of their best passages; a place is a run on one page, no longer than a few passages."""
    merged = places(found, len(found), text)
    covered = [
        (place.doc_id, place.page, number)
        for place in merged
        for number in range(place.start // 10, (place.end + 9) // 10)
    ]
    assert sorted(covered) == sorted((one.doc_id, one.page, one.passage) for one in found)
    firsts = [
        found.index(next(one for one in found if (one.doc_id, one.passage) == (p.doc_id, p.passage))) for p in merged
    ]
    assert firsts == sorted(firsts)
    assert all(place.end - place.start <= 10 * MOST_PASSAGES for place in merged)
    assert all(place.text == TEXT[place.start : place.end] for place in merged)


def test_two_passages_of_one_page_take_one_of_the_first_places():
    merged = places([hit(4), hit(9), hit(5), hit(3, page=2)], 2, text)
    assert [(place.passage, place.start, place.end) for place in merged] == [(4, 40, 59), (9, 90, 99)]


def test_a_search_for_places_gives_the_text_between_its_passages(corpus: Corpus, write):
    """Nothing between two passages is lost, and as many places come as were asked for."""
    told = "\n\n".join(
        f"The crimson pump number {n} stops at night. " + "Filler goes on here. " * 60 for n in range(12)
    )
    doc_id = corpus.add(write("pumps.txt", told)).document_id
    alone = corpus.search("crimson pump", k=5)
    merged = corpus.places("crimson pump", k=5)
    whole = corpus.text(doc_id)
    assert merged[0].passage == alone[0].passage
    assert len(merged) == 5
    assert max(place.end - place.start for place in merged) > max(one.end - one.start for one in alone)
    assert all(place.text == whole[place.start : place.end] for place in merged)
