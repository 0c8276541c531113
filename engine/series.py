"""Decides which figures of a `CacheView` Prometheus gets, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from engine.view import STATES, CacheView

Sample = tuple[str, float | None]


@dataclass(frozen=True)
class Series:
    """A family of samples.

    Attributes:
        name: As Prometheus shows it; a counter's ends in `_total`.
        label: The name of its one label; empty for a single sample.
        samples: (the label's value, the figure) each; a figure of None is not known and left out.
        of_process: Each front end counts its own, so that several of them add up; else all see the same engine.
    """

    name: str
    kind: Literal["gauge", "counter"]
    words: str
    samples: Callable[[CacheView], Iterable[Sample]]
    label: str = ""
    of_process: bool = False


def _one(figure: Callable[[CacheView], float | None]) -> Callable[[CacheView], Iterable[Sample]]:
    return lambda view: [("", figure(view))]


def _resident_in_prefixes(view: CacheView) -> int | None:
    known = [prefix.resident_tokens for prefix in view.prefixes if prefix.resident_tokens is not None]
    return sum(known) if len(known) == len(view.prefixes) else None


ALL: tuple[Series, ...] = (
    Series(
        "readonce_prefixes",
        "gauge",
        "Registered prefixes by how much of them is resident.",
        lambda view: [(state, view.num_in(state)) for state in STATES],
        label="state",
    ),
    Series(
        "readonce_prefix_resident_tokens",
        "gauge",
        "Tokens of registered prefixes that the engine holds; what two prefixes share counts twice.",
        _one(_resident_in_prefixes),
    ),
    Series(
        "readonce_resident_tokens",
        "gauge",
        "Tokens in all cached blocks, those of answers too.",
        _one(lambda view: view.resident_tokens),
    ),
    Series("readonce_pool_tokens", "gauge", "Tokens that the pool holds at most.", _one(lambda view: view.pool_tokens)),
    Series("readonce_pinned_tokens", "gauge", "Tokens of pinned prefixes.", _one(lambda view: view.pinned_tokens)),
    Series(
        "readonce_hot_tokens",
        "gauge",
        "Tokens of prefixes that are in use now and not pinned.",
        _one(lambda view: view.hot_tokens),
        of_process=True,
    ),
    Series(
        "readonce_cache_hit_tokens_total",
        "counter",
        "Prompt tokens that came from the cache.",
        _one(lambda view: view.hits_tokens),
        of_process=True,
    ),
    Series(
        "readonce_cache_query_tokens_total",
        "counter",
        "Prompt tokens that were looked up in the cache.",
        _one(lambda view: view.queries_tokens),
        of_process=True,
    ),
    Series(
        "readonce_predictions_total",
        "counter",
        "Predicted cached tokens, against what the engine reported.",
        lambda view: [
            ("right", view.predictions - view.wrong_predictions),
            ("wrong", view.wrong_predictions),
            ("uncertain", view.uncertain_predictions),
        ],
        label="result",
        of_process=True,
    ),
    Series(
        "readonce_waiting",
        "gauge",
        "Questions at the door, by what they wait for.",
        lambda view: [("read", view.queue.read), ("room", view.queue.room)],
        label="cause",
        of_process=True,
    ),
    Series(
        "readonce_reads_total",
        "counter",
        "Prefixes that were read ahead of their questions.",
        _one(lambda view: view.reads),
        of_process=True,
    ),
    Series(
        "readonce_joined_questions_total",
        "counter",
        "Questions that waited for a read that ran already.",
        _one(lambda view: view.joined_questions),
        of_process=True,
    ),
    Series(
        "readonce_evicted_blocks_total",
        "counter",
        "Cached blocks that gave way to others.",
        _one(lambda view: view.evicted_blocks),
    ),
    Series(
        "readonce_live_streams",
        "gauge",
        "Answers that are being streamed.",
        _one(lambda view: view.live_streams),
        of_process=True,
    ),
    Series(
        "readonce_feature",
        "gauge",
        "1 where a feature runs inside the engine, 0 where it is off.",
        lambda view: [
            ("core", view.features.core),
            ("attention", view.features.attention),
            ("events", view.features.events),
        ],
        label="feature",
    ),
)
