"""What is made of many simulated questions: the page's own time, what was lost, what grew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.bench.load_facts import FACTS_A_DOCUMENT, Fact, invented
from app.bench.load_figures import Spread, figures_of_way, thirds
from app.bench.load_person import Asked
from app.bench.load_watch import Cost
from engine.fake_server import Took

FACT = Fact("Brabek", "mill", 417)


def asked(at: float, first_s: float | None, done_s: float | None, **more: object) -> Asked:
    made = Asked(FACT, "page", at, first_s, done_s, whole=True, in_order=True)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def took(at: float, first_s: float, total_s: float) -> Took:
    return Took(at, FACT.question, first_s, total_s)


def test_the_engines_time_is_taken_off_each_question() -> None:
    """To the first word and to the end; a second question in the same words is another one."""
    figures = figures_of_way(
        "page", [asked(10.0, 0.5, 1.25), asked(20.0, 0.75, 2.0)], [took(10.25, 0.25, 0.75), took(20.25, 0.5, 1.5)], 0
    )
    assert figures.first == Spread(250.0, 250.0, 250.0)
    assert figures.done == Spread(500.0, 500.0, 500.0)
    assert (figures.questions, figures.unanswered, figures.out_of_order, figures.other_place) == (2, 0, 0, 0)


def test_what_the_search_asked_of_the_engine_is_the_engines_too() -> None:
    """Its calls come before the one that answers, and are waited for to their end."""
    figures = figures_of_way("page", [asked(10.0, 1.0, 2.0)], [took(10.0, 0.25, 0.5), took(10.5, 0.25, 1.0)], 0)
    assert figures.first == Spread(250.0, 250.0, 250.0)
    assert figures.done == Spread(500.0, 500.0, 500.0)


def test_calls_that_go_on_side_by_side_are_waited_for_once() -> None:
    """A search asks for a translation and other words at once: the longer one is the engine's time."""
    calls = [took(10.0, 0.25, 0.5), took(10.25, 0.25, 0.5), took(11.0, 0.25, 1.0)]
    figures = figures_of_way("page", [asked(10.0, 1.5, 2.5)], calls, 0)
    assert figures.first == Spread(500.0, 500.0, 500.0)
    assert figures.done == Spread(750.0, 750.0, 750.0)


def test_what_is_lost_is_counted_and_never_timed() -> None:
    """No end, an error in the answer's place, words out of order, another sentence: each by its name."""
    lost = [
        asked(10.0, 0.5, None),
        asked(20.0, 0.5, 1.0, problem="The engine is away."),
        asked(30.0, 0.5, 1.0, in_order=False),
        asked(40.0, 0.5, 1.0, whole=False),
    ]
    figures = figures_of_way("page", lost, [took(10.25, 0.25, 0.5), took(20.25, 0.25, 0.5)], 3)
    assert (figures.unanswered, figures.out_of_order, figures.other_place, figures.not_kept) == (2, 1, 1, 3)
    assert figures.first is None


@given(st.lists(st.floats(0, 100), min_size=1))
def test_a_spread_is_in_order_and_of_values_that_were_there(seconds: list[float]) -> None:
    """Half are at most p50, and nothing is above the worst."""
    spread = Spread.of(seconds)
    assert spread is not None
    assert spread.p50 <= spread.p95 <= spread.worst == max(seconds) * 1000
    assert {spread.p50, spread.p95} <= {each * 1000 for each in seconds}


def test_memory_is_told_by_thirds_after_the_warm_up() -> None:
    """What grows shows as a last third above the first."""
    cost = Cost(memory_mb=[(0.0, 10.0), *((float(at), 100.0 + at) for at in range(1, 10))])
    assert thirds(cost, 1.0) == (102.0, 105.0, 108.0)


def test_every_fact_has_a_name_and_a_number_of_its_own() -> None:
    """So an answer can be held against its question, and no two questions are the same."""
    files = invented(24)
    facts = [fact for file in files for fact in file.facts]
    assert len({fact.name for fact in facts}) == len(facts) == 24 * FACTS_A_DOCUMENT
    assert all(len({fact.tonnes for fact in file.facts}) == FACTS_A_DOCUMENT for file in files)
    assert invented(24) == files
    assert all(fact.sentence in file.text for file in files for fact in file.facts)
