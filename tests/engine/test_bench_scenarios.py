"""The benchmark's scenarios on a virtual clock: every figure exact, and asked as often as it says."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import TypeVar, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual import FakeSystem, run

from engine.base import EngineError
from engine.bench.base import Document, System, Timing
from engine.bench.documents import Writer, zipf_draws
from engine.bench.file import file
from engine.bench.gap import gap
from engine.bench.results import Batch, Burst, File, Gap, Trace, Warm, hit_rate, percentile, tokens_per_event
from engine.bench.run import Failure, Job, measure
from engine.bench.scenarios import batch, burst, ready, trace, warm
from engine.bench.sizes import SCALES, FileShape, Scale, ScaleName
from engine.tokenizer import Tokenizer

T = TypeVar("T")
QUESTION = 64
SMALL = Scale(
    warm_tokens=(160, 330),
    warm_questions=3,
    burst_tokens=320,
    burst_questions=(4,),
    burst_output_tokens=10,
    gap_answers=2,
    gap_tokens=160,
    gap_output_tokens=30,
    gap_cold_tokens=1585,
    trace_documents=2,
    trace_tokens=160,
    trace_at_once=1,
    trace_questions=6,
    trace_output_tokens=2,
    batch_tokens=160,
    batch_sizes=(1, 3),
    batch_output_tokens=10,
    files=(FileShape(2, 160, 6, 10),),
    file_at_once=3,
    file_plain_at_once=2,
    replay_requests=10,
    replay_block_tokens=16,
    replay_speed=1.0,
)


@pytest.fixture(autouse=True)
def _no_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one clock that is not the event loop's stands still."""
    monkeypatch.setattr(time, "process_time", lambda: 7.0)


@pytest.fixture
def writer(tokenizer: Tokenizer) -> Writer:
    return Writer(tokenizer, seed=1)


def results(
    scenario: Callable[[System, Writer, Scale], AsyncIterator[T]], system: System, writer: Writer, scale: Scale = SMALL
) -> list[T]:
    async def collect() -> list[T]:
        return [result async for result in scenario(system, writer, scale)]

    return run(collect())


def test_warm_gives_the_first_question_and_the_median_of_the_later_ones(writer: Writer) -> None:
    """Cold: the host's 5 ms, the reading, one token of 10 ms. 330 tokens are 20 whole blocks of 16."""
    system = FakeSystem()
    assert results(warm, system, writer) == [
        Warm(document_tokens=160, cold_ms=175.0, warm_ms=15.0, prompt_tokens=160 + QUESTION, cached_tokens=160),
        Warm(document_tokens=330, cold_ms=345.0, warm_ms=15.0, prompt_tokens=330 + QUESTION, cached_tokens=320),
    ]
    assert [tokens for _, tokens, _ in system.asked] == [160] * 4 + [330] * 4


def test_burst_asks_all_at_once_on_a_document_that_was_read(writer: Writer) -> None:
    """Ten tokens of 10 ms after the host's 5 ms; the document's own reading is not counted."""
    system = FakeSystem()
    assert results(burst, system, writer) == [
        Burst(
            questions=4,
            document_tokens=320,
            tokens_per_s=381.0,  # 40 tokens in 0.105 s
            first_ms=15.0,
            first_p95_ms=15.0,
            wall_s=0.105,
            output_tokens=40,
            tokens_per_event=1.0,
            client_cpu_share=0.0,
        )
    ]
    assert len(set(system.began_at_s[1:])) == 1


def test_gap_takes_the_gaps_while_the_cold_document_is_read(writer: Writer) -> None:
    """Reading 1,585 tokens takes 1.585 s, in which nothing else moves: both answers have one gap of that length."""
    system = FakeSystem()
    (result,) = results(gap, system, writer)
    assert isinstance(result, Gap)
    assert (result.cold_alone_s, result.cold_s, result.cold_ratio) == (1.6, 1.6, 1.0)
    assert result.gap_p50_ms == 10.0
    assert (result.gap_p99_ms, result.gap_max_ms) == (1590.0, 1590.0)
    # Asked a quarter of the cold time after it, the warm question waits for the rest.
    assert result.warm_first_ms == result.warm_p50_ms == result.warm_worst_ms == 1200.0
    assert (result.warm_questions, result.tokens_per_event) == (1, 1.0)


def test_gap_of_a_system_that_does_not_stall(writer: Writer) -> None:
    """Every gap is a token's time; warm questions are answered in 45 ms, and 250 ms lie between them."""
    (result,) = results(gap, FakeSystem(stalls=False), writer)
    assert (result.gap_p50_ms, result.gap_p99_ms, result.gap_max_ms) == (10.0, 10.0, 10.0)
    assert (result.warm_first_ms, result.warm_p50_ms, result.warm_worst_ms) == (15.0, 15.0, 15.0)
    assert result.warm_questions == 5


def test_gap_asks_again_where_an_answer_ends_too_early_and_leaves_none_running(writer: Writer) -> None:
    """30 tokens last 0.3 s, the cold document is read for 1.6 s."""
    system = FakeSystem(stalls=False)
    results(gap, system, writer)
    assert sum(output == SMALL.gap_output_tokens for _, _, output in system.asked) >= 2 * 5
    assert system.num_running == 0


def test_gap_ends_where_an_answer_fails(writer: Writer) -> None:
    """It would else wait for ever: the answers are the fourth and fifth question, after three that were for reading."""
    system = FakeSystem(fails=frozenset({3}))
    with pytest.raises(EngineError, match="told to fail"):
        results(gap, system, writer)
    assert system.num_running == 0


def test_trace_counts_reuse_over_all_prompt_tokens_cold_and_warm(writer: Writer) -> None:
    """Six questions one after the other; the first on each of the two documents reads it."""
    system = FakeSystem()
    cold, warm_again = results(trace, system, writer)
    num_drawn = len(set(zipf_draws(2, 6, 8)))
    assert num_drawn == 2
    prompt = 160 + QUESTION
    assert cold == Trace(
        start="cold",
        documents=2,
        document_tokens=160,
        at_once=1,
        questions=6,
        questions_per_s=round(6 / 0.470, 2),  # 6 x (5 + 20 ms) and 2 x 160 ms of reading
        hit_rate=round(4 * 160 / (6 * prompt), 4),
        first_ms=15.0,
        first_p95_ms=175.0,
        wall_s=0.47,
        client_cpu_share=0.0,
    )
    assert (warm_again.start, warm_again.hit_rate, warm_again.wall_s) == ("warm", round(160 / prompt, 4), 0.15)


def test_trace_keeps_so_many_questions_going(writer: Writer) -> None:
    """Three at a time: what begins in one moment is never more than three, and the first moment is full."""
    system = FakeSystem()
    results(trace, system, writer, replace(SMALL, trace_at_once=3))
    begun = Counter(system.began_at_s)
    assert begun[0.0] == 3
    assert max(begun.values()) == 3


def test_batch_counts_what_failed_and_the_pool_that_was_in_use(writer: Writer) -> None:
    """Of three questions the last fails; the fake's pool is a tenth a running request."""
    # It is looked at when nothing runs yet, and after 0.1 s: then one of the three has failed.
    system = FakeSystem(fails=frozenset({5}))
    one, three = results(batch, system, writer)
    assert one == Batch(
        questions=1,
        mean_prompt_tokens=160 + QUESTION,
        tokens_per_s=round(10 / 0.105, 1),
        pool_used=0.1,
        success_rate=1.0,
        hit_rate=round(160 / (160 + QUESTION), 4),
        client_cpu_share=0.0,
    )
    assert (three.questions, three.success_rate, three.tokens_per_s) == (3, 0.6667, round(20 / 0.105, 1))
    assert three.pool_used == 0.2


def test_file_is_asked_document_by_document_where_its_order_is_planned(writer: Writer) -> None:
    """Each document is read, then its questions follow; the second one is read while the first one's answers run."""
    system = FakeSystem(name="readonce", stalls=False)
    result, warm_result = results(file, system, writer)
    first, second = sorted({number for number, _, _ in system.asked})
    # The second is read beside three questions; the other three follow as soon as there is room.
    asked = [(number, output) for number, _, output in system.asked]
    assert asked[:8] == [(first, 1), *[(first, 10)] * 3, (second, 1), *[(second, 10)] * 3]
    assert asked[8:] == asked[:8]
    assert isinstance(warm_result, File)
    assert (warm_result.start, warm_result.hit_rate) == ("warm", round(160 / (160 + (6 * QUESTION + 2) / 8), 4))
    assert warm_result.wall_s < result.wall_s
    prompts = 6 * (160 + QUESTION) + 2 * (160 + 1)
    assert result == File(
        start="cold",
        order="planned",
        wave=1,
        documents=2,
        document_tokens=160,
        at_once=3,
        questions=6,
        output_tokens=10,
        questions_per_s=round(6 / 0.455, 2),  # 2 x 175 ms of reading, then 105 ms for the last three
        tokens_per_s=round(60 / 0.455, 1),
        mean_prompt_tokens=160 + QUESTION,
        hit_rate=round(6 * 160 / prompts, 4),
        pool_used=0.4,
        success_rate=1.0,
        wall_s=0.455,
        client_cpu_share=0.0,
    )


def test_a_wave_reads_all_its_documents_before_any_of_its_questions(writer: Writer) -> None:
    """Both documents first, then the six questions three at a time; larger than the file, it is the file."""
    for wave in (2, 9):
        system = FakeSystem(name="readonce", stalls=False)
        result, warm_result = results(file, system, writer, replace(SMALL, file_wave=wave))
        first, second = sorted({number for number, _, _ in system.asked})
        asked = [(number, output) for number, _, output in system.asked]
        assert asked[:8] == [(first, 1), (second, 1), *[(first, 10)] * 3, *[(second, 10)] * 3]
        assert asked[8:] == asked[:8]
        assert isinstance(result, File)
        # 2 x 175 ms of reading with nothing beside it, then 2 x 105 ms for the answers.
        assert (result.order, result.wave, result.wall_s) == ("planned", wave, 0.56)
        assert isinstance(warm_result, File)
        assert warm_result.start == "warm"


@pytest.mark.parametrize(("asked_for", "wave"), [(None, 2), (1, 1)])
def test_a_file_is_read_in_the_waves_of_its_scale_where_none_is_asked_for(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, asked_for: int | None, wave: int
) -> None:
    """What is measured on a GPU is what a batch does there."""
    monkeypatch.setitem(SCALES, "quick", replace(SMALL, file_wave=2))

    async def collect() -> list[object]:
        job = Job(("file",), "quick", file_wave=asked_for)
        return [one async for one in measure(FakeSystem(name="readonce"), job, writer, 4096)]

    assert [one.wave for one in run(collect()) if isinstance(one, File)] == [wave, wave]


def test_file_is_asked_as_it_stands_where_nothing_plans(writer: Writer) -> None:
    """In turn, so many at a time; a failed answer is counted."""
    system = FakeSystem(fails=frozenset({3}))
    result, warm_result = results(file, system, writer)
    first, second = sorted({number for number, _, _ in system.asked})
    assert [number for number, _, _ in system.asked] == [first, second] * 6
    assert isinstance(result, File)
    assert (result.order, result.wave, result.at_once, result.success_rate) == ("file", None, 2, 0.8333)
    assert isinstance(warm_result, File)
    assert (warm_result.start, warm_result.order) == ("warm", "file")
    assert max(Counter(system.began_at_s).values()) == 2


def test_no_document_is_measured_twice(writer: Writer) -> None:
    """Each scenario reads documents of its own, and so does the next system."""
    first, second = FakeSystem(), FakeSystem()
    for system in (first, second):
        results(burst, system, writer)
        results(batch, system, writer)
    numbers = [{number for number, _, _ in system.asked} for system in (first, second)]
    assert [len(found) for found in numbers] == [3, 3]
    assert numbers[0] & numbers[1] == set()


def test_a_scenario_that_fails_leaves_the_others_their_turn(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is given in its place, with the engine's own words."""
    monkeypatch.setitem(SCALES, "quick", SMALL)
    num_before = 2 + 8  # getting ready, then warm

    async def collect() -> list[object]:
        system = FakeSystem(fails=frozenset({num_before}))
        return [result async for result in measure(system, Job(("warm", "burst", "trace"), "quick"), writer, 4096)]

    found = run(collect())
    assert [type(result) for result in found] == [Warm, Warm, Failure, Trace, Trace]
    assert isinstance(found[2], Failure)
    assert (found[2].scenario, found[2].error.code) == ("burst", "engine_failed")


def test_ready_asks_twice_on_one_document(writer: Writer) -> None:
    """Once cold and once warm, so that neither path is taken for the first time in a measurement."""
    system = FakeSystem()
    run(ready(system, writer))
    assert [system.asked[0][0]] * 2 == [number for number, _, _ in system.asked]


@pytest.mark.parametrize("name", get_args(ScaleName))
def test_a_context_too_short_for_a_scale_is_refused_with_the_numbers(name: ScaleName) -> None:
    """One that is long enough changes nothing."""
    assert SCALES[name].fitted(1_000_000) == SCALES[name]
    with pytest.raises(EngineError, match=r"reads 500 tokens at once and this measurement needs [\d,]+;") as caught:
        SCALES[name].fitted(500)
    assert caught.value.code == "context_too_short"


def test_documents_that_are_too_long_are_left_out() -> None:
    """A context of 64k holds two of the three; one token less than the largest other scenario needs holds none."""
    assert SCALES["gpu"].fitted(65_536).warm_tokens == (2_000, 32_000)
    needed = 32_000 + 128 + QUESTION + 128
    assert SCALES["gpu"].fitted(needed).warm_tokens == (2_000, 32_000)
    with pytest.raises(EngineError, match=f"needs {needed:,}"):
        SCALES["gpu"].fitted(needed - 1)


def test_cold_document_is_cut_to_what_the_engine_reads_at_once() -> None:
    """Question, answer and a chat's own words have to fit beside it."""
    assert SCALES["cpu"].fitted(4_000).gap_cold_tokens == 4_000 - 64 - 4 - 128
    assert SCALES["cpu"].fitted(8_192).gap_cold_tokens == 6_000


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(1, 100))
def test_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[int], percent: int) -> None:
    """Nearest rank, whatever the order."""
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


def test_percentiles_of_one_to_a_hundred() -> None:
    """The figures that the names promise."""
    values = list(range(100, 0, -1))
    assert [percentile(values, percent) for percent in (50, 95, 99, 100)] == [50, 95, 99, 100]


def timing(cached: int | None, events: int = 2, output: int = 2) -> Timing:
    return Timing(0.1, (0.1,) * (events - 1), 0.5, 100, cached, output)


@pytest.mark.parametrize(("cached", "rate"), [([80, 100, 0], 0.6), ([80, None], None), ([0], 0.0), (list[int](), None)])
def test_hit_rate_is_unknown_where_one_answer_did_not_report(cached: Sequence[int | None], rate: float | None) -> None:
    """Cached of all prompt tokens."""
    assert hit_rate([timing(number) for number in cached]) == rate


def test_tokens_an_event_is_an_average_over_all_answers() -> None:
    """Six tokens in four events."""
    assert tokens_per_event([timing(0, events=1, output=3), timing(0, events=3, output=3)]) == 1.5


def test_zipf_draws_are_the_same_for_every_system_and_in_proportion() -> None:
    """The seed decides them; document n comes about 1/(n + 1) times as often as the first."""
    assert zipf_draws(4, 12, seed=8) == (0, 3, 0, 1, 0, 0, 3, 0, 1, 0, 0, 1)
    counts = Counter(zipf_draws(8, 80_000, seed=1))
    for number in range(8):
        assert counts[number] == pytest.approx(counts[0] / (number + 1), rel=0.06)


@pytest.mark.parametrize("num_tokens", [1, 17, 500])
def test_documents_have_exactly_so_many_tokens_and_share_no_beginning(tokenizer: Tokenizer, num_tokens: int) -> None:
    """Two writers without a seed write other words; the text says what the ids say."""
    first, second = Writer(tokenizer).document(num_tokens), Writer(tokenizer).document(num_tokens)
    assert (first.num_tokens, second.num_tokens) == (num_tokens, num_tokens)
    assert first.text == tokenizer.decode(first.ids)
    assert num_tokens < 17 or first.ids[:16] != second.ids[:16]


def test_what_is_written_once_a_document_is_its_json() -> None:
    """Without the last character, so that a question can follow."""
    document = Document((5, 6), 'a "b"\n')
    assert json.loads(document.ids_json + b"]") == [5, 6]
    assert json.loads(document.text_json + b'"') == 'a "b"\n'
