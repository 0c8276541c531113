"""What is said of a batch before it runs: the words, and the time that earlier batches teach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.batch.bar import figures, lasting
from app.batch.cost import Cost, cost_words
from app.batch.progress import Progress
from app.batch.rates import Rates, keep_rates, load_rates, rates_of
from app.settings import Settings

COST = Cost(1_000, 50, 50, 50, 1_600_000, 40_000, 32_040_000, True)


def test_cost_is_one_sentence() -> None:
    """Prefills and tokens beside what they would be without a plan; the time only where a rate is known."""
    said = "1,000 questions, 50 documents: 50 prefills (1.6 M tokens) instead of 1,000 (32.0 M tokens)"
    assert cost_words(COST) == f"{said}; how long that takes on this engine is known after the first batch on it."
    assert cost_words(replace(COST, seconds=247.0)) == f"{said}; about 4 min on this engine."
    guessed = replace(COST, questions=1, documents=1, reads=1, read_tokens=9_000, question_tokens=40, is_exact=False)
    assert cost_words(guessed).startswith("1 question, 1 document: 1 prefill (about 9,040 tokens) instead of 1 (")


@given(st.floats(1.0, 1e5), st.integers(1, 10_000), st.integers(1, 10**7), st.floats(10.0, 1e5))
def test_a_batch_that_runs_again_is_said_to_take_as_long_as_it_took(
    wall_s: float, answers: int, read_tokens: int, read_tokens_per_s: float
) -> None:
    """Whatever reading and answering took of it; where reading alone seems longer than all, never less than that."""
    rates = rates_of(wall_s, answers, read_tokens, read_tokens_per_s)
    assert rates is not None
    said = rates.seconds(read_tokens, answers)
    assert said == pytest.approx(max(wall_s, read_tokens / read_tokens_per_s + 0.05 * wall_s))


@pytest.mark.parametrize("arguments", [(0.0, 5, 100, 50.0), (9.0, 0, 100, 50.0), (9.0, 5, 100, 0.0)])
def test_a_batch_that_read_or_answered_nothing_teaches_nothing(arguments: tuple[float, int, int, float]) -> None:
    """What is known from before stays."""
    assert rates_of(*arguments) is None


def test_rates_are_kept_for_each_engine(tmp_path: Path) -> None:
    """Another model, another place or longer answers are another engine; a damaged file is as none."""
    settings = Settings.load()
    settings.home.mkdir(parents=True)
    elsewhere = settings.model_copy(update={"engine_url": "http://127.0.0.1:9"})
    assert load_rates(settings) is None
    keep_rates(settings, Rates(1_000.0, 2.0))
    keep_rates(elsewhere, Rates(9_000.0, 40.0))
    keep_rates(settings, Rates(1_100.0, 3.0))
    assert load_rates(settings) == Rates(1_100.0, 3.0)
    assert load_rates(elsewhere) == Rates(9_000.0, 40.0)
    assert load_rates(settings.model_copy(update={"model": "smollm2-135m"})) is None
    (file,) = [path for path in settings.home.iterdir() if "rates" in path.name]
    file.write_text("{")
    assert load_rates(settings) is None
    keep_rates(settings, Rates(5.0, 5.0))
    assert load_rates(settings) == Rates(5.0, 5.0)


def test_progress_tells_rate_reuse_failures_and_the_time_left() -> None:
    """And only what is known."""
    assert figures(Progress(10)) == ""
    running = Progress(
        100, num_done=41, num_failed=1, num_asked=40, read_tokens=2_000, prompt_tokens=84_000, cached_tokens=82_000,
        elapsed_s=20.0,
    )  # fmt: skip
    assert figures(running) == "2.0 questions/s, 95 % reused, 1 failed, 30 s left"
    assert (lasting(0.2), lasting(89.4), lasting(91.0), lasting(5_500.0)) == ("1 s", "89 s", "2 min", "1.5 h")
