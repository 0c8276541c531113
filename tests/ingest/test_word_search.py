"""Words are weighed as SQLite's own BM25 weighs them, over lists that follow the store."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.corpus import Corpus
from ingest.keywords import is_single
from ingest.roster import Rosters
from ingest.word_search import shares_of_words, stems

WORDS = [
    "pumping",
    "pumps",
    "pump",
    "boiler",
    "valve",
    "nightly",
    "gb/t",
    "19001",
    "猫",
    "黑猫",
    "水泵",
    "é",
    "running",
]


@pytest.fixture
def library(corpus: Corpus, write) -> Corpus:
    texts = [
        "Pumps are pumping. The pump pumps water, and the boiler is running.",
        "The boiler and its valve; nightly a valve is opened. GB/T 19001 applies.",
        "黑猫在水泵旁边睡觉。猫不怕水。",
        "A valve. " * 40,
        "Nothing of that is said here, but the running of a café: é.",
    ] + [f"Filler number {number} about nothing at all." for number in range(30)]
    for number, text in enumerate(texts):
        corpus.add(write(f"{number}.txt", text))
    return corpus


def by_sqlite(corpus: Corpus, word: str) -> dict[int, float]:
    """What `bm25()` gives for one word, over the rarity that it multiplies with."""
    connection = corpus._database.connection
    query = f'"{word}"{"*" * is_single(word)}'
    rows = connection.execute("SELECT rowid, -bm25(keywords) FROM keywords WHERE keywords MATCH ?", (query,)).fetchall()
    total = connection.execute("SELECT count(*) FROM passages").fetchone()[0]
    rarity = max(1e-6, math.log((total - len(rows) + 0.5) / (len(rows) + 0.5)))
    return {row[0]: row[1] / rarity for row in rows}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(WORDS))
def test_one_word_weighs_what_sqlite_says(library, word):
    """Stems, single characters as beginnings, repetitions and lengths alike."""
    connection = library._database.connection
    roster = Rosters().of(connection)
    from ingest.keywords import question_words

    words = question_words(word)
    true: dict[int, float] = {}
    most = 0.0
    for one in words:
        having = by_sqlite(library, one)
        rarity = math.log(1 + (len(roster.ids) - len(having) + 20) / (len(having) + 1))
        most += rarity * 2.2
        for id_, weight in having.items():
            true[id_] = true.get(id_, 0.0) + rarity * weight
    found = shares_of_words(connection, word, roster).best(1000, None)
    assert found == {id_: pytest.approx(weight / most, rel=1e-6) for id_, weight in true.items()}
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_only_what_is_allowed_is_ranked_but_rarity_goes_by_all(library):
    """A word's weight does not change with who asks."""
    connection = library._database.connection
    roster = Rosters().of(connection)
    shares = shares_of_words(connection, "valve boiler", roster)
    everywhere = shares.best(1000, None)
    (last, share) = list(everywhere.items())[-1]
    assert shares.best(1, np.array([last])) == {last: share}
    assert shares.best(9, np.array([], dtype=np.int64)) == {}
    assert list(shares.best(2, None)) == list(everywhere)[:2]


def test_any_passage_can_be_asked_for_its_share(library):
    """What is not among the best has the same share as where all are asked for; ids that nobody has have none."""
    connection = library._database.connection
    roster = Rosters().of(connection)
    shares = shares_of_words(connection, "valve boiler", roster)
    everywhere = shares.best(1000, None)
    last = list(everywhere)[-1]
    assert shares.of([last, 10**6]) == {last: everywhere[last]}
    assert shares.of(reversed(everywhere)) == everywhere
    assert list(shares.of(reversed(everywhere))) == list(everywhere)
    assert shares_of_words(connection, "", roster).of([last]) == {}


def test_stems_are_those_of_the_keyword_index():
    assert stems(("running", "pumps", "水泵", "19001")) == ("run", "pump", "水泵", "19001")


def test_the_roster_follows_additions_removals_and_a_rebuild(library, write):
    """At each step it is what a new one is, and knows nothing that has gone."""
    rosters = Rosters()
    connection = library._database.connection

    def check() -> int:
        followed, new = rosters.of(connection), Rosters().of(connection)
        assert followed.ids.tolist() == new.ids.tolist()
        for name in ("page", "num_words"):
            assert np.array_equal(getattr(followed, name)[followed.ids], getattr(new, name)[new.ids])
        documents = {number: id_ for id_, number in followed.documents.items()}
        rows = connection.execute("SELECT id, document_id FROM passages").fetchall()
        assert {row[0]: row[1] for row in rows} == {
            int(id_): documents[int(followed.document[id_])] for id_ in followed.ids
        }
        assert followed.mean_words == new.mean_words
        return len(followed.ids)

    count = check()
    added = library.add(write("more.txt", "More about valves."))
    assert check() == count + 1
    library.remove(added.document_id)
    assert check() == count
    library.rebuild()
    assert check() == count
    assert rosters.of(connection) is rosters.of(connection)
