"""What a benchmark's line of JSON holds, and how two systems compare."""

from __future__ import annotations

import dataclasses
import json
from typing import get_args

import pytest

from engine.base import EngineError
from engine.bench.figures import FIGURES, Compared, Figure, compare, times_better
from engine.bench.machine import About, Machine
from engine.bench.results import Batch, Result, Warm
from engine.bench.run import Failure, row

ABOUT = About(
    date="2026-11-30T08:00:00+00:00",
    machine=Machine("Abacus", 2, 11.5, (), None),
    readonce="0.1.0",
    vllm="0.29.0",
    python="3.11.9",
    model="m",
    max_model_len=8192,
    block_size=32,
    num_blocks=2000,
    scale="cpu",
)
OURS = Warm(document_tokens=2000, cold_ms=900.0, warm_ms=20.0, prompt_tokens=2064, cached_tokens=2000)
CHAT = Warm(document_tokens=2000, cold_ms=990.0, warm_ms=150.0, prompt_tokens=2080, cached_tokens=None)


def test_a_line_holds_the_figures_and_where_they_were_made() -> None:
    """Flat but for what it is about; it can be written as JSON."""
    line = row("readonce", OURS, ABOUT)
    assert json.loads(json.dumps(line)) == {
        "scenario": "warm",
        "system": "readonce",
        "case": "2,000 tokens",
        "document_tokens": 2000,
        "cold_ms": 900.0,
        "warm_ms": 20.0,
        "prompt_tokens": 2064,
        "cached_tokens": 2000,
        "about": {
            "date": "2026-11-30T08:00:00+00:00",
            "machine": {"cpu": "Abacus", "cores": 2, "memory_gib": 11.5, "gpus": [], "gpu_memory_gib": None},
            "readonce": "0.1.0",
            "vllm": "0.29.0",
            "python": "3.11.9",
            "model": "m",
            "max_model_len": 8192,
            "block_size": 32,
            "num_blocks": 2000,
            "scale": "cpu",
        },
    }


def test_a_failure_is_a_line_too() -> None:
    """With the engine's code and sentence in place of figures."""
    line = row("chat", Failure("burst", EngineError("engine_failed", "It broke.")), ABOUT)
    assert {key: line[key] for key in line if key != "about"} == {
        "scenario": "burst",
        "system": "chat",
        "error": {"code": "engine_failed", "message": "It broke."},
    }


@pytest.mark.parametrize(
    ("better", "ours", "theirs", "ratio"),
    [
        ("lower", 20.0, 150.0, 7.5),
        ("lower", 150.0, 20.0, 0.13),
        ("higher", 8000.0, 1000.0, 8.0),
        ("neither", 1.0, 2.0, None),
        ("lower", None, 2.0, None),
        ("lower", 2.0, None, None),
        ("lower", 0.0, 2.0, None),
        ("higher", 5, 0, None),
    ],
)
def test_a_ratio_says_how_many_times_better_ours_is(
    better: str, ours: float | None, theirs: float | None, ratio: float | None
) -> None:
    """Whichever way is better; nothing where a figure is missing or would be divided by nothing."""
    assert times_better(Figure("f", "words", better), ours, theirs) == ratio  # type: ignore[arg-type]


def test_systems_are_compared_case_by_case() -> None:
    """One row a figure; a case that a system lacks is empty there."""
    other = dataclasses.replace(OURS, document_tokens=500)
    rows = compare([("readonce", OURS), ("readonce", other), ("chat", CHAT)], ("readonce", "chat"))
    cold, warm, cached, prompt = FIGURES[Warm]
    assert rows == [
        Compared("warm", "2,000 tokens", cold, (900.0, 990.0), (1.1,)),
        Compared("warm", "2,000 tokens", warm, (20.0, 150.0), (7.5,)),
        Compared("warm", "2,000 tokens", cached, (2000, None), (None,)),
        Compared("warm", "2,000 tokens", prompt, (2064, 2080), (None,)),
        Compared("warm", "500 tokens", cold, (900.0, None), (None,)),
        Compared("warm", "500 tokens", warm, (20.0, None), (None,)),
        Compared("warm", "500 tokens", cached, (2000, None), (None,)),
        Compared("warm", "500 tokens", prompt, (2064, None), (None,)),
    ]


@pytest.mark.parametrize("kind", get_args(Result))
def test_every_figure_is_a_field_of_its_result(kind: type[Result]) -> None:
    """No result without figures, no figure without a field."""
    fields = {field.name for field in dataclasses.fields(kind)}
    shown = [figure.field for figure in FIGURES[kind]]
    assert shown
    assert set(shown) <= fields
    assert len(set(shown)) == len(shown)


def test_the_table_of_batches_has_its_columns() -> None:
    """Batch size in the case; mean length, tokens a second, memory, success rate, hit rate."""
    batch = Batch(8, 1064.0, 312.5, 0.25, 1.0, 0.94, 0.1)
    assert batch.case == "8 at once"
    assert [(figure.words.partition(",")[0], figure.of(batch)) for figure in FIGURES[Batch]] == [
        ("mean length", 1064.0),
        ("tokens/s", 312.5),
        ("memory", 0.25),
        ("answered whole", 1.0),
        ("reused", 0.94),
    ]
