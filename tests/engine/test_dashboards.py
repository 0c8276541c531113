"""The dashboard and the alert rules name only what the engine really exports, and the alerts ring when they should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from alerts import ASSETS, MATCHER, SELECTOR, Vector, fires, quantile, rules
from prometheus_client import CollectorRegistry, generate_latest
from test_metrics import figures
from views import VIEW, view

from engine.metrics import BUCKETS_S, FirstToken, Metrics
from engine.targets import HELD_SHARE, HIT_RATE, WARM_FIRST_TOKEN_MS

# vLLM's own, in 0.26 to 0.32; `test_seeds_metrics` holds them against a running server.
VLLMS = {
    "vllm:generation_tokens_total",
    "vllm:num_preemptions_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:prefix_cache_hits_total",
    "vllm:prompt_tokens_total",
    "vllm:request_success_total",
}
OF_PROMETHEUS = {"up"}
FROM_THE_SCRAPE = {"job", "instance"}


async def exported() -> dict[str, float]:
    """Every series that our part of /metrics can show."""
    registry = CollectorRegistry()
    metrics = Metrics(lambda: VIEW, registry)
    for warm in (True, False):
        metrics.observe(FirstToken(0.02, 0.001, 0.002, 0.012, warm))
    return figures(generate_latest(registry).decode())


def board() -> dict[str, Any]:
    read = json.loads((ASSETS / "grafana-dashboard.json").read_text())
    assert isinstance(read, dict)
    return read


def expressions() -> Iterator[str]:
    for rule in rules():
        yield rule.expr
    for panel in board()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in board()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]


async def test_every_metric_named_is_exported() -> None:
    """A name that nothing exports would draw an empty panel, or an alert that never rings."""
    ours = {name.partition("{")[0] for name in await exported()}
    named = {found[1] for expression in expressions() for found in SELECTOR.finditer(expression)}
    assert named - ours - VLLMS - OF_PROMETHEUS == set()
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours} - families == {
        "readonce_feature",
        "readonce_first_token_seconds_created",
    }


async def test_every_label_asked_for_exists() -> None:
    """Each selector's labels, and the values they are to have, are ones that the series carries."""
    values: dict[tuple[str, str], set[str]] = {}
    for series in await exported():
        name, _, labels = series.partition("{")
        for label, _, value in MATCHER.findall(labels):
            values.setdefault((name, label), set()).add(value)
    for expression in expressions():
        for found in SELECTOR.finditer(expression):
            for label, how, value in MATCHER.findall(found[2] or ""):
                if label not in FROM_THE_SCRAPE:
                    assert value in values[found[1], label], (expression, label, how)


def test_the_rules_have_what_prometheus_wants() -> None:
    """A name, an expression, how long it lasts, how bad it is, and two sentences for whoever is woken."""
    assert [rule.name for rule in rules()] == [
        "ReadonceEngineDown",
        "ReadonceHitRateLow",
        "ReadonceWarmFirstTokenSlow",
        "ReadoncePoolPressure",
        "ReadonceWrongPredictions",
    ]
    for rule in rules():
        assert re.fullmatch(r"\d+[smh]", rule.lasts)
        assert rule.labels["severity"] in ("warning", "critical")
        assert set(rule.annotations) == {"summary", "description"}
        assert rule.expr.count("(") == rule.expr.count(")")


def test_the_limits_are_the_targets() -> None:
    """What rings and what `readonce status` prints agree."""
    limits = {rule.name: [float(n) for n in re.findall(r"[<>] (\d+\.\d+)", rule.expr)] for rule in rules()}
    assert limits["ReadonceHitRateLow"] == [HIT_RATE]
    assert limits["ReadonceWarmFirstTokenSlow"] == [WARM_FIRST_TOKEN_MS / 1000]
    assert limits["ReadoncePoolPressure"] == [HELD_SHARE]


def test_engine_down_rings_when_the_scrape_fails() -> None:
    """And only then."""
    assert fires("ReadonceEngineDown", {'up{job="readonce"}': 0})
    assert not fires("ReadonceEngineDown", {'up{job="readonce"}': 1})
    assert not fires("ReadonceEngineDown", {'up{job="another"}': 0})


@pytest.mark.parametrize(("hits", "questions", "rings"), [(690, 20, True), (700, 20, False), (690, 19, False)])
def test_hit_rate_rings_below_70_percent_of_twenty_questions(hits: int, questions: int, rings: bool) -> None:
    """What was read before the window does not count, and a few questions are no alarm."""
    before = {"readonce_cache_hit_tokens_total": 9000.0, "readonce_cache_query_tokens_total": 9000.0}
    after = {
        "readonce_cache_hit_tokens_total": 9000.0 + hits,
        "readonce_cache_query_tokens_total": 10_000.0,
        'readonce_first_token_seconds_count{part="all",warm="true"}': questions,
        'readonce_first_token_seconds_count{part="gpu",warm="true"}': questions,
    }
    assert fires("ReadonceHitRateLow", after, before) is rings


@pytest.mark.parametrize(("slow", "rings"), [(4, False), (6, True)])
async def test_first_token_rings_when_more_than_5_of_100_warm_questions_take_longer(slow: int, rings: bool) -> None:
    """Over real buckets from the real histogram; cold questions never count."""
    registry = CollectorRegistry()
    metrics = Metrics(lambda: VIEW, registry)
    for number in range(100):
        metrics.observe(FirstToken(0.9 if number < slow else 0.03, 0.0, None, None, warm=True))
        metrics.observe(FirstToken(9.0, 0.0, None, None, warm=False))
    assert fires("ReadonceWarmFirstTokenSlow", figures(generate_latest(registry).decode())) is rings


@pytest.mark.parametrize(("pinned", "evicted", "rings"), [(12_000, 40, True), (11_000, 40, False), (12_000, 0, False)])
async def test_pool_pressure_rings_when_much_is_held_and_the_rest_is_evicted(
    pinned: int, evicted: int, rings: bool
) -> None:
    """More than 85 % pinned or in use is no harm while nothing has to give way."""
    registry = CollectorRegistry()
    Metrics(lambda: view(pinned_tokens=pinned, hot_tokens=2_000, evicted_blocks=7 + evicted), registry)
    after = figures(generate_latest(registry).decode())
    assert fires("ReadoncePoolPressure", after, {"readonce_evicted_blocks_total": 7}) is rings


async def test_one_wrong_prediction_rings() -> None:
    """An uncertain one does not."""
    before = await exported()
    assert not fires("ReadonceWrongPredictions", before | {'readonce_predictions_total{result="uncertain"}': 9}, before)
    assert fires("ReadonceWrongPredictions", before | {'readonce_predictions_total{result="wrong"}': 2}, before)


def test_quantile_of_the_evaluator_is_prometheus_own() -> None:
    """Linear within the bucket: the worked example of the alert."""
    ends = [*map(str, BUCKETS_S), "+Inf"]
    buckets = Vector(({"le": end}, 10.0 if float(end.replace("+Inf", "inf")) >= 0.5 else 4.0) for end in ends)
    assert quantile(0.7, buckets) == pytest.approx(0.25 + 0.25 * (7 - 4) / (10 - 4))


def test_panels_lie_beside_each_other() -> None:
    """No two cover the same place, and ids are unique: Grafana would show one of them only."""
    places = [
        (x, y)
        for panel in board()["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) == 23
    assert len({panel["id"] for panel in board()["panels"]}) == len(board()["panels"])
