"""What is said of a batch before it runs: the words, and the time that earlier batches teach."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.batch.bar import figures, lasting
from app.batch.cost import Cost, Late, cost_words
from app.batch.progress import Progress
from app.batch.timing.clock import MEASURED, AnswerSeen, Clock, ReadSeen, Seen
from app.batch.timing.expected import Asking, asking, expected, span_of
from app.batch.timing.learnt import keep_seen, load_rates, load_seen
from app.batch.timing.lengths import Lengths, lengths_of
from app.batch.timing.rates import Rates, rates_of
from app.settings import Settings

COST = Cost(1_000, 50, 50, 50, 1_600_000, 40_000, 32_040_000, True)


def test_cost_is_one_sentence() -> None:
    """Prefills and tokens beside what they would be without a plan; the time only where a rate is known."""
    said = "1,000 questions, 50 documents: 50 prefills (1.6 M tokens) instead of 1,000 (32.0 M tokens)"
    assert cost_words(COST) == f"{said}; how long that takes on this engine is known after the first batch on it."
    known = replace(COST, seconds=247.0, seconds_low=230.0, seconds_high=264.0)
    assert cost_words(known) == f"{said}; about 4 min on this engine."
    late = replace(known, late=3, first_late=Late("q7", "2031-05-04 14:00:00", "2031-05-04 14:02:11"))
    assert cost_words(late) == (
        f"{said}; about 4 min on this engine. 3 answers will be late: “q7” is due at 2031-05-04 14:00:00, and expected "
        "at 2031-05-04 14:02:11."
    )
    past = replace(COST, late=1, first_late=Late("q7", "2011-05-04 14:00:00", None))
    assert cost_words(past).endswith(" 1 answer will be late: “q7” is due at 2011-05-04 14:00:00, which is past.")
    guessed = replace(COST, questions=1, documents=1, reads=1, read_tokens=9_000, question_tokens=40, is_exact=False)
    assert cost_words(guessed).startswith("1 question, 1 document: 1 prefill (about 9,040 tokens) instead of 1 (")


def read_of(tokens: int, alone_s: float, beside_s: float = 0.0, at_s: float = 1_000.0) -> ReadSeen:
    return ReadSeen(at_s, tokens, alone_s, beside_s)


def answer_of(
    tokens: int,
    step_s: float,
    *,
    other_s: float = 0.1,
    width: float = 1.0,
    beside: float = 0.0,
    at_s: float = 1_000.0,
    kind: str = "",
    is_cut: bool = False,
) -> AnswerSeen:
    speaking_s = (tokens - 1) * step_s
    return AnswerSeen(at_s, tokens, is_cut, 40, kind, tokens - 1, speaking_s, other_s, width, beside)


@given(st.integers(100, 10_000), st.floats(1e-5, 1e-2), st.integers(2, 500), st.floats(1e-3, 1.0), st.integers(1, 64))
def test_an_engine_that_never_changes_is_told_as_it_is(
    tokens: int, token_s: float, length: int, step_s: float, width: int
) -> None:
    """Whatever it takes to read a token or to give one of an answer, and however many run."""
    answers = [answer_of(length, step_s, other_s=3 * step_s, width=width)] * 5
    rates = rates_of(Seen((read_of(tokens, tokens * token_s),) * 3, tuple(answers)), 1_000.0, width)
    assert rates is not None
    assert rates.reading_s(tokens) == pytest.approx(tokens * token_s)
    assert rates.step_of(width) == pytest.approx(step_s)
    assert rates.starting_s(width, 40) == pytest.approx(3 * step_s)


def test_more_answers_at_once_than_were_seen_are_judged_by_those_that_were() -> None:
    """A step of one answer took 30 ms, one of three 50 ms: one of eight takes 100 ms."""
    answers = (answer_of(101, 0.03, width=1), answer_of(101, 0.05, width=3))
    rates = rates_of(Seen((read_of(1_000, 2.0),), answers * 9), 1_000.0, 8)
    assert rates is not None
    assert [rates.step_of(width) for width in (1, 3, 8)] == pytest.approx([0.03, 0.05, 0.1], rel=0.01)


def test_what_is_further_behind_is_read_more_slowly() -> None:
    """1,000 tokens in 2 s and 3,000 in 12 s: 2,000 take 6 s."""
    reads = (read_of(1_000, 2.0), read_of(3_000, 12.0))
    rates = rates_of(Seen(reads, (answer_of(10, 0.02),)), 1_000.0, 1)
    assert rates is not None
    assert rates.reading_s(2_000) == pytest.approx(6.0, rel=0.01)


def test_one_first_read_that_took_long_is_not_taken_for_the_engines_speed() -> None:
    """A cold start of ten times the usual time moves the estimate by less than a sixth."""
    reads = (read_of(1_000, 10.0, at_s=900), *(read_of(1_000, 1.0, at_s=950 + number) for number in range(5)))
    rates = rates_of(Seen(reads, (answer_of(10, 0.02),)), 1_000.0, 1)
    assert rates is not None
    assert rates.reading_s(1_000) == pytest.approx(1.0, rel=1 / 6)


def test_what_was_seen_long_ago_gives_way_to_what_is_seen_now() -> None:
    """A machine that was twice as slow an hour ago; and what is long ago is told with more doubt than what is not."""
    answers = (answer_of(10, 0.02),)
    old = tuple(read_of(1_000, 2.0, at_s=1_000 + number) for number in range(20))
    now = rates_of(Seen((*old, read_of(1_000, 1.0, at_s=4_600)), answers), 4_600.0, 1)
    before = rates_of(Seen(old, answers), 4_600.0, 1)
    then = rates_of(Seen(old, answers), 1_020.0, 1)
    assert now is not None
    assert before is not None
    assert then is not None
    assert now.reading_s(1_000) == pytest.approx(1.0, rel=0.15)
    assert before.reading_s(1_000) == pytest.approx(2.0)
    assert then.read_error < 0.1 < 0.3 < before.read_error


def test_what_reads_and_answers_leave_of_each_other_is_seen() -> None:
    """Reads took twice as long beside answers that went on at a quarter; where neither was seen, they share it."""
    reads = (read_of(1_000, 1.0), read_of(1_000, 0.0, beside_s=2.0))
    alone, beside = answer_of(101, 0.02), answer_of(101, 0.08, other_s=0.4, beside=1.0)
    rates = rates_of(Seen(reads, (alone, beside)), 1_000.0, 1)
    assert rates is not None
    assert (rates.reading_share, rates.answering_share) == (pytest.approx(0.5), pytest.approx(0.25))
    apart = rates_of(Seen(reads[:1], (alone,)), 1_000.0, 1)
    assert apart is not None
    assert apart.reading_share + apart.answering_share == 1.0


@pytest.mark.parametrize(
    "seen", [Seen(), Seen((read_of(1_000, 2.0),)), Seen((), (answer_of(10, 0.02),)), Seen((read_of(0, 1.0),), ())]
)
def test_where_no_read_or_no_answer_was_seen_there_are_no_rates(seen: Seen) -> None:
    """Half a speed is none."""
    assert rates_of(seen, 1_000.0, 1) is None


def test_answers_are_as_long_as_those_of_their_kind() -> None:
    """Where none of it were seen, as all that a model was asked for; those that measured the engine say nothing."""
    answers = [answer_of(tokens, 0.02, kind=kind) for tokens, kind in ((10, ""), (30, ""), (90, "json"))]
    answers.append(answer_of(16, 0.02, kind=MEASURED))
    assert lengths_of(answers, "", 256).seen == (10.0, 30.0)
    assert lengths_of(answers, "json", 64).mean == 64.0
    assert lengths_of(answers, "others", 256).seen == (10.0, 30.0, 90.0)
    assert (lengths_of(answers[3:], "", 256).mean, lengths_of(answers[3:], "", 256).seen) == (256.0, ())


def test_answers_that_were_cut_are_longer_where_more_is_allowed() -> None:
    """Of 100 tokens one answer ended and one was cut: each further token ends one in a hundred."""
    answers = [answer_of(36, 0.02), answer_of(64, 0.02, is_cut=True)]
    assert lengths_of(answers, "", 64).seen == (36.0, 64.0)
    assert lengths_of(answers, "", 32).seen == (32.0, 32.0)
    longer = 64 + (1 - math.exp(-0.01 * 192)) / 0.01
    assert lengths_of(answers, "", 256).seen == (36.0, pytest.approx(longer))
    assert lengths_of(answers[1:], "", 256).mean == 256.0, "nothing tells that they would have ended"


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.integers(1, 300))
def test_expected_lengths_are_spread_as_those_that_were_seen(tokens: list[int], count: int) -> None:
    """Each is one of them, and of many the mean is theirs."""
    lengths = lengths_of([answer_of(number, 0.02) for number in tokens], "", 500)
    assert set(lengths.of(count)) <= set(lengths.seen)
    many = lengths.of(100 * len(tokens))
    assert math.fsum(many) / len(many) == pytest.approx(lengths.mean, rel=0.05)


def test_what_was_seen_is_kept_for_each_engine(settings: Settings) -> None:
    """Another model or another place is another engine; the last are kept; a damaged file is as none."""
    elsewhere = settings.model_copy(update={"engine_url": "http://127.0.0.1:9"})
    one = Seen((read_of(1_000, 2.0),), (answer_of(10, 0.02),))
    assert load_seen(settings) == Seen()
    assert load_rates(settings) is None
    keep_seen(settings, one)
    keep_seen(elsewhere, Seen((read_of(1_000, 1.0),), ()))
    keep_seen(settings, one)
    assert load_seen(settings) == Seen(one.reads * 2, one.answers * 2)
    assert load_seen(elsewhere) == Seen((read_of(1_000, 1.0),), ())
    assert load_seen(settings.model_copy(update={"answer_tokens": 17})) == load_seen(settings)
    assert load_seen(settings.model_copy(update={"model": "smollm2-135m"})) == Seen()
    many = Seen(tuple(read_of(number, 1.0) for number in range(1, 200)), ())
    keep_seen(settings, many)
    assert load_seen(settings).reads == many.reads[-64:]
    (file,) = [path for path in settings.home.iterdir() if "rates" in path.name]
    for damaged in ("{", "[]", file.read_text().replace('"answers"', '"answrs"'), '{"a": {"read_tokens": 1}}'):
        file.write_text(damaged)
        assert load_seen(settings) == Seen()
    keep_seen(settings, one)
    assert load_seen(settings) == one


def test_the_clock_tells_words_from_the_rest_and_what_ran_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that had an answer beside it for 5 of its 7 s; an answer of 12 s, of which 9 passed while it spoke."""
    now_s = 0.0
    monkeypatch.setattr(time, "time", lambda: 7_000.0)
    clock = Clock(lambda: now_s)

    def wait(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    with clock.running() as other:
        wait(1.0)
        other.came(1)
    clock.has_answered(other, tokens=1, is_cut=False, question_tokens=9, kind="k")
    wait(6.0)
    with clock.reading() as reading:
        wait(2.0)
        with clock.running() as answer:
            answer.came(0)
            wait(2.0)
            answer.came(3)
            wait(3.0)
    clock.has_read(reading, 500)
    assert clock.seen.reads == (ReadSeen(7_000.0, 500, 2.0, 5.0),)
    with clock.running() as first:
        wait(2.0)
        first.came(2)
        with clock.running() as second:
            wait(4.0)
            second.came(1)
        with clock.reading():
            wait(5.0)
            first.came(10)
        wait(1.0)
    clock.has_answered(first, tokens=12, is_cut=True, question_tokens=40, kind="k")
    assert clock.seen.answers == (
        AnswerSeen(7_000.0, 1, False, 9, "k", 0, 0.0, 1.0, 1.0, 0.0),
        AnswerSeen(7_000.0, 12, True, 40, "k", 10, 9.0, 3.0, pytest.approx(16 / 12), pytest.approx(5 / 12)),
    )
    with clock.running() as silent:
        wait(1.0)
    clock.has_answered(silent, tokens=0, is_cut=False, question_tokens=40, kind="k")
    assert len(clock.seen.answers) == 2


def asked_of(*groups: tuple[int, int]) -> list[Asking]:
    return [Asking(read_tokens, (11.0,) * size) for read_tokens, size in groups]


def test_answers_are_expected_as_the_batch_runs_them() -> None:
    """Reads of 1 s, answers of 2 s, two at once. The next read comes while the last two answers run, which wait."""
    rates = Rates(0.001, 0.0, 0.2, 0.0, 0.0, 2.0, 0.0, 1.0, 1e-9)
    assert expected(rates, asked_of((0, 2), (1_000, 1), (1_000, 4), (0, 2)), 2, 0) == pytest.approx(
        [4, 4, 6, 6, 8, 8, 10, 10, 12]
    )
    assert expected(rates, [], 2, 0) == []
    # In waves the questions on both reads are asked together.
    assert expected(rates, asked_of((1_000, 1), (1_000, 3)), 2, 0, wave=2) == pytest.approx([4, 4, 6, 6])
    assert expected(rates, asked_of((1_000, 1), (1_000, 3)), 2, 0) == pytest.approx([4, 4, 6, 6])
    # Where they leave each other all their speed, the second read takes no time of its own.
    side_by_side = replace(rates, answering_share=1.0)
    assert expected(side_by_side, asked_of((1_000, 1), (1_000, 3)), 2, 0) == pytest.approx([3, 4, 5, 6])


@given(
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(1, 9)), min_size=1, max_size=9),
    st.integers(1, 9),
    st.integers(1, 4),
    st.floats(0.1, 1.0),
    st.floats(0.02, 1.0),
)
def test_no_batch_is_expected_before_its_work_can_be_done(
    groups: list[tuple[int, int]], at_once: int, wave: int, reading_share: float, answering_share: float
) -> None:
    """Nor later than if all of it were done one after the other."""
    rates = Rates(0.001, 0.0, 0.02, 0.0, 0.1, float(at_once), 30.0, reading_share, answering_share)
    ends_s = expected(rates, asked_of(*groups), at_once, 30.0 * sum(size for _, size in groups), wave)
    count, reading_s = len(ends_s), sum(tokens for tokens, _ in groups) * 0.001
    assert count == sum(size for _, size in groups)
    assert max(ends_s) >= max(reading_s, -(-count // at_once) * 0.3) - 1e-6
    assert max(ends_s) <= reading_s / reading_share + count * 0.3 + 1e-6


def test_the_time_is_one_figure_where_much_was_seen_and_two_where_little_was() -> None:
    """Where no answer was, it is what the longest answers take on an engine as slow as it may be."""
    rates = Rates(0.001, 0.0, 0.1, 0.0, 0.0, 1.0, 0.0, read_error=0.1, answer_error=0.05)
    spread = tuple(float(number) for number in (1, 20) * 50)
    for seen, words in (
        (spread, "about 8 min on this engine."),
        (spread[:4], "4 min to 12 min on this engine."),
        ((), "at most 17 min on this engine, how long its answers are is known after the first batch."),
    ):
        lengths = Lengths(20, seen)
        groups = asking([1_000], [512], lengths)
        seconds = max(expected(rates, groups, 1, 0))
        low, high = span_of(rates, groups, lengths, seconds)
        said = cost_words(replace(COST, seconds=seconds if seen else high, seconds_low=low, seconds_high=high))
        assert said.split("; ")[-1] == words
    assert span_of(rates, [], Lengths(20), 0.0) == (0.0, 0.0)


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
