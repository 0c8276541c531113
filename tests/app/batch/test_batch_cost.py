"""What is said of a batch before it runs: the words, and the time that earlier batches teach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.batch.bar import figures, lasting
from app.batch.clock import Answering, Clock, Work
from app.batch.cost import Cost, Late, cost_words
from app.batch.expected import expected
from app.batch.progress import Progress
from app.batch.rates import Rates, keep_work, load_rates, load_work, rates_of, remembered
from app.settings import Settings

COST = Cost(1_000, 50, 50, 50, 1_600_000, 40_000, 32_040_000, True)


def test_cost_is_one_sentence() -> None:
    """Prefills and tokens beside what they would be without a plan; the time only where a rate is known."""
    said = "1,000 questions, 50 documents: 50 prefills (1.6 M tokens) instead of 1,000 (32.0 M tokens)"
    assert cost_words(COST) == f"{said}; how long that takes on this engine is known after the first batch on it."
    assert cost_words(replace(COST, seconds=247.0)) == f"{said}; about 4 min on this engine."
    late = replace(COST, seconds=247.0, late=3, first_late=Late("q7", "2031-05-04 14:00:00", "2031-05-04 14:02:11"))
    assert cost_words(late) == (
        f"{said}; about 4 min on this engine. 3 answers will be late: “q7” is due at 2031-05-04 14:00:00, and expected "
        "at 2031-05-04 14:02:11."
    )
    past = replace(COST, late=1, first_late=Late("q7", "2011-05-04 14:00:00", None))
    assert cost_words(past).endswith(" 1 answer will be late: “q7” is due at 2011-05-04 14:00:00, which is past.")
    guessed = replace(COST, questions=1, documents=1, reads=1, read_tokens=9_000, question_tokens=40, is_exact=False)
    assert cost_words(guessed).startswith("1 question, 1 document: 1 prefill (about 9,040 tokens) instead of 1 (")


COUNTS = st.integers(1, 10_000)
SECONDS = st.floats(0.1, 1e4)


@given(COUNTS, SECONDS, st.integers(1, 64), COUNTS, SECONDS, st.integers(1, 1_000), st.integers(0, 5_000))
def test_reading_and_answering_again_are_said_to_take_as_long_as_they_took(
    read_tokens: int, read_s: float, at_once: int, tokens: int, answering_s: float, answers: int, beside: int
) -> None:
    """Together, whatever came beside the reads; where less than a tenth would be left of either, never less."""
    work = Work(read_tokens, read_s, beside, {at_once: Answering(answering_s, tokens)}, answers, tokens + beside)
    rates = rates_of(work)
    assert rates is not None
    reading_s = rates.reading_s(read_tokens)
    assert reading_s == pytest.approx(max(read_s - beside * answering_s / tokens, 0.1 * read_s))
    assert rates.answering_s(answers, at_once) == pytest.approx((tokens + beside) * answering_s / tokens)


def test_more_answers_at_once_than_were_seen_are_judged_by_those_that_were() -> None:
    """A step of one answer took 30 ms, one of three 50 ms: one of eight takes 100 ms, and a batch an eighth of that."""
    seen = {1: Answering(30.0, 1_000.0), 3: Answering(50.0, 3_000.0)}
    rates = rates_of(Work(1_000, 2.0, 0, seen, 100, 4_000))
    assert rates is not None
    assert rates == Rates(0.002, pytest.approx(0.02), pytest.approx(0.01), 40.0)
    assert rates.answering_s(100, 8) == pytest.approx(100 * 40 * 0.1 / 8)


@pytest.mark.parametrize("answers", [1, 40])
def test_what_questions_take_to_be_computed_is_not_taken_for_words(answers: int) -> None:
    """Read 100 tokens in a second: of 8 s in which 40 answers came, 200 tokens of questions took 2 s."""
    work = Work(1_000, 10.0, 0, {1: Answering(8.0, 600.0)}, answers, 600, 200)
    rates = rates_of(work)
    assert rates is not None
    assert rates.answering_s(answers, 1) == pytest.approx(6.0)
    (*_, end_s) = expected(rates, [(1_000, answers)], 1, 200)
    assert end_s == pytest.approx(18.0)


@pytest.mark.parametrize(
    "work",
    [
        Work(),
        Work(1_000, 2.0),
        Work(0, 0.0, 0, {1: Answering(3.0, 30.0)}, 3, 30),
        Work(1_000, 2.0, 30, {1: Answering(3.0, 0.0)}, 3, 30),
    ],
)
def test_a_batch_that_read_or_answered_nothing_tells_no_rates(work: Work) -> None:
    """Nor one whose answers all came beside reads: how long they take alone nobody saw."""
    assert rates_of(work) is None


def work_of(seconds: float, token_s: float) -> Work:
    """Half of the time reads, half answers."""
    tokens = seconds / 2 / token_s
    return Work(tokens, seconds / 2, 0, {2: Answering(seconds / 2, tokens)}, tokens / 10, tokens)


def test_a_small_batch_changes_little_and_a_long_one_makes_older_ones_forgotten() -> None:
    """Each counts by its time; ten minutes are remembered."""
    small = rates_of(remembered(work_of(200, 0.01), work_of(2, 0.03)))
    assert small is not None
    assert small.read_token_s == pytest.approx(0.01, rel=0.02)
    fading = remembered(work_of(500, 0.01), work_of(300, 0.01))
    assert fading.seconds == pytest.approx(600)
    assert remembered(work_of(500, 0.01), work_of(900, 0.03)) == work_of(900, 0.03)


def test_work_is_remembered_for_each_engine(settings: Settings) -> None:
    """Another model, another place or longer answers are another engine; a damaged file is as none."""
    elsewhere = settings.model_copy(update={"engine_url": "http://127.0.0.1:9"})
    assert load_rates(settings) is None
    keep_work(settings, work_of(20, 0.01))
    keep_work(elsewhere, work_of(20, 0.001))
    keep_work(settings, work_of(20, 0.03))
    assert load_work(settings) == remembered(work_of(20, 0.01), work_of(20, 0.03))
    assert load_work(elsewhere) == work_of(20, 0.001)
    assert load_rates(elsewhere) == rates_of(work_of(20, 0.001))
    assert load_rates(settings.model_copy(update={"model": "smollm2-135m"})) is None
    (file,) = [path for path in settings.home.iterdir() if "rates" in path.name]
    for damaged in ("{", "[]", file.read_text().replace('"answering"', '"answerng"')):
        file.write_text(damaged)
        assert load_rates(settings) is None
    keep_work(settings, work_of(20, 0.05))
    assert load_work(settings) == work_of(20, 0.05)


def test_the_clock_tells_reading_from_answering() -> None:
    """What comes of answers while something is read is told apart, and time in which nothing ran is nobody's."""
    now_s = 0.0
    clock = Clock(lambda: now_s)

    def wait(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    wait(1.0)
    with clock.reading():
        wait(2.0)
        clock.has_read(500)
    with clock.running():
        wait(3.0)
        clock.came(30)
        with clock.running():
            wait(4.0)
            clock.came(50)
            with clock.reading():
                wait(5.0)
                clock.came(7)
            clock.has_read(400)
    wait(6.0)
    assert clock.work(answers=2, output_tokens=87, question_tokens=9) == Work(
        900, 7.0, 7, {1: Answering(3.0, 30.0), 2: Answering(4.0, 50.0)}, 2, 87, 9
    )


def test_answers_are_expected_one_after_the_other_and_what_is_held_is_not_read() -> None:
    """Reads of 1 s; answers of 2 s alone, two of them together in the same time; the last ones do not end together."""
    rates = Rates(0.001, 0.2, 0.0, 10.0)
    assert expected(rates, [(0, 2), (1_000, 1), (1_000, 4), (0, 2)], 2, 0) == pytest.approx(
        [1 + part for part in (1, 2, 5, 7, 8, 9, 10, 11, 12)]
    )
    assert expected(rates, [], 2, 0) == []
    # In waves the questions on both reads are asked together, and the lone one between them no longer runs alone.
    assert expected(rates, [(0, 2), (1_000, 1), (1_000, 4), (0, 2)], 2, 0, wave=2) == pytest.approx(
        [1 + part for part in (1, 2, 5, 6, 7, 8, 9, 10, 11)]
    )


@pytest.fixture
def settings() -> Settings:
    made = Settings.load()
    made.home.mkdir(parents=True)
    return made


def test_progress_tells_rate_reuse_failures_and_the_time_left() -> None:
    """And only what is known."""
    assert figures(Progress(10)) == ""
    running = Progress(
        100, num_done=41, num_failed=1, num_asked=40, read_tokens=2_000, prompt_tokens=84_000, cached_tokens=82_000,
        elapsed_s=20.0,
    )  # fmt: skip
    assert figures(running) == "2.0 questions/s, 95 % reused, 1 failed, 30 s left"
    assert (lasting(0.2), lasting(89.4), lasting(91.0), lasting(5_500.0)) == ("1 s", "89 s", "2 min", "1.5 h")
