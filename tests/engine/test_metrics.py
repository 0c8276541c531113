"""Our part of /metrics: exact figures, from any thread, from several front ends, and never at the cost of vLLM's."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from views import VIEW, view

from engine.metrics import BUCKETS_S, FirstToken, Metrics
from engine.view import CacheView, FirstTokens

EXPECTED = {
    'readonce_prefixes{state="cold"}': 1,
    'readonce_prefixes{state="warming"}': 1,
    'readonce_prefixes{state="warm"}': 2,
    'readonce_prefixes{state="partial"}': 1,
    "readonce_prefix_resident_tokens": 6740,
    "readonce_resident_tokens": 9600,
    "readonce_pool_tokens": 16000,
    "readonce_pinned_tokens": 4000,
    "readonce_hot_tokens": 2000,
    "readonce_cache_hit_tokens_total": 72000,
    "readonce_cache_query_tokens_total": 80000,
    'readonce_predictions_total{result="right"}': 39,
    'readonce_predictions_total{result="wrong"}': 1,
    'readonce_predictions_total{result="uncertain"}': 3,
    'readonce_waiting{cause="read"}': 3,
    'readonce_waiting{cause="room"}': 1,
    "readonce_reads_total": 6,
    "readonce_joined_questions_total": 9,
    "readonce_evicted_blocks_total": 7,
    "readonce_live_streams": 2,
    'readonce_feature{feature="core"}': 1,
    'readonce_feature{feature="attention"}': 0,
    'readonce_feature{feature="events"}': 1,
}


def figures(text: str) -> dict[str, float]:
    """`name{label="value"}` -> figure, as Prometheus itself would read the text."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def shown(registry: CollectorRegistry) -> dict[str, float]:
    return figures(generate_latest(registry).decode())


async def test_each_figure_of_the_view_has_its_name() -> None:
    """The collector's output is exactly the view, nothing more and nothing less."""
    registry = CollectorRegistry()
    Metrics(lambda: VIEW, registry)
    assert shown(registry) == EXPECTED


async def test_what_is_not_known_is_left_out() -> None:
    """An engine without events knows no residency: no zero is shown in its place."""
    prefixes = tuple(replace(prefix, resident_tokens=None) for prefix in VIEW.prefixes)
    blind = view(resident_tokens=None, evicted_blocks=None, prefixes=prefixes)
    registry = CollectorRegistry()
    Metrics(lambda: blind, registry)
    missing = set(EXPECTED) - set(shown(registry))
    assert missing == {"readonce_resident_tokens", "readonce_evicted_blocks_total", "readonce_prefix_resident_tokens"}


async def test_the_view_is_taken_in_the_event_loop_though_a_thread_asks() -> None:
    """vLLM answers /metrics in a thread of its pool, while the loop goes on changing what the view is made of."""
    asked_in: list[int] = []

    def take() -> CacheView:
        asked_in.append(threading.get_ident())
        return VIEW

    registry = CollectorRegistry()
    Metrics(take, registry)
    assert await asyncio.to_thread(shown, registry) == EXPECTED
    assert asked_in == [threading.get_ident()]


async def test_a_failing_view_takes_nothing_else_away(caplog: pytest.LogCaptureFixture) -> None:
    """vLLM's own figures stay, the first token's too, and the log says it once, not at every scrape."""

    def take() -> CacheView:
        raise RuntimeError("no events for an hour")

    registry = CollectorRegistry()
    Gauge("vllm_of_its_own", "", registry=registry).set(5)
    metrics = Metrics(take, registry)
    metrics.observe(FirstToken(0.02, 0.001, 0.002, 0.012, warm=True))
    with caplog.at_level(logging.WARNING):
        found = [await asyncio.to_thread(shown, registry), shown(registry)]
    assert all(one["vllm_of_its_own"] == 5 for one in found)
    assert all(one['readonce_first_token_seconds_count{part="all",warm="true"}'] == 1 for one in found)
    assert [record.message for record in caplog.records] == [
        "The cache's figures are missing from /metrics: RuntimeError('no events for an hour')"
    ]


async def test_a_first_token_is_split_into_its_parts() -> None:
    """The host's share is what door, queue and GPU leave of the whole; the parts of one question add up."""
    registry = CollectorRegistry()
    metrics = Metrics(lambda: VIEW, registry)
    metrics.observe(FirstToken(total_s=0.5, admission_s=0.125, queue_s=0.0625, gpu_s=0.25, warm=False))
    found = shown(registry)
    parts = {
        part: found[f'readonce_first_token_seconds_sum{{part="{part}",warm="false"}}']
        for part in ("admission", "queue", "host", "gpu", "all")
    }
    assert parts == {"admission": 0.125, "queue": 0.0625, "host": 0.0625, "gpu": 0.25, "all": 0.5}
    assert parts.pop("all") == sum(parts.values())
    assert found['readonce_first_token_seconds_bucket{le="0.25",part="all",warm="false"}'] == 0
    assert found['readonce_first_token_seconds_bucket{le="0.5",part="all",warm="false"}'] == 1


async def test_parts_that_the_engine_does_not_tell_are_not_invented() -> None:
    """Only the door and the whole are counted where queue or GPU time is unknown."""
    registry = CollectorRegistry()
    Metrics(lambda: VIEW, registry).observe(FirstToken(0.5, 0.0, None, 0.25, warm=True))
    counted = {name for name in shown(registry) if name.startswith("readonce_first_token_seconds_count")}
    assert counted == {
        f'readonce_first_token_seconds_count{{part="{part}",warm="true"}}' for part in ("admission", "gpu", "all")
    }


async def test_medians_are_of_the_last_questions_of_each_kind() -> None:
    """300 warm questions, of which the last 256 count; cold ones apart; none before the first."""
    metrics = Metrics(lambda: VIEW, CollectorRegistry())
    assert metrics.first_tokens == FirstTokens(0, None, None)
    for number in range(300):
        metrics.observe(FirstToken(number / 1000, 0.0, None, None, warm=True))
    metrics.observe(FirstToken(2.5, 0.0, None, None, warm=False))
    assert metrics.first_tokens == FirstTokens(301, pytest.approx(171.5), 2500.0)


async def test_closing_leaves_room_for_the_next() -> None:
    """Two plugins one after the other in one process: the second one's figures are the ones shown."""
    registry = CollectorRegistry()
    Metrics(lambda: VIEW, registry).close()
    assert shown(registry) == {}
    Metrics(lambda: view(pool_tokens=1), registry)
    assert shown(registry)["readonce_pool_tokens"] == 1


def test_a_bucket_ends_at_the_target() -> None:
    """Otherwise the share of questions under half a second could only be guessed."""
    assert 0.5 in BUCKETS_S


FRONT_END = """
import asyncio, sys
sys.path[:0] = [{root!r}, {tests!r}]
from views import view
from engine import metric_files
from engine.metrics import FirstToken, Metrics
from prometheus_client import CollectorRegistry, generate_latest, multiprocess

metric_files.WRITTEN_EVERY_S = 0

async def main():
    hits = int(sys.argv[1])
    now = [view(hits_tokens=hits, evicted_blocks=7)]
    metrics = Metrics(lambda: now[0])
    metrics.observe(FirstToken(0.02, 0.001, 0.002, 0.012, warm=True))
    await asyncio.sleep(0)
    now[0] = view(hits_tokens=hits + 5, evicted_blocks=7)
    for _ in range(3):
        await asyncio.sleep(0)
    if sys.argv[2] == "ask":
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
        sys.stdout.write(generate_latest(registry).decode())
    else:
        print("written", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


def test_several_front_ends_add_up_what_is_theirs(tmp_path: Path) -> None:
    """What each counts itself is summed over the processes; what all see of the one engine is not."""
    here = Path(__file__).parent
    code = FRONT_END.format(root=str(here.parents[1]), tests=str(here))
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    first = subprocess.Popen(
        [sys.executable, "-c", code, "1000", "stay"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert first.stdin is not None
    assert first.stdout is not None
    assert first.stdout.readline() == "written\n"
    second = subprocess.run(
        [sys.executable, "-c", code, "200", "ask"], env=environment, capture_output=True, text=True, check=True
    )
    first.stdin.close()
    assert first.wait(timeout=30) == 0
    first.stdout.close()
    found = figures(second.stdout)
    assert found["readonce_cache_hit_tokens_total"] == 1210
    assert found['readonce_waiting{cause="read"}'] == 6
    assert found["readonce_live_streams"] == 4
    assert found['readonce_first_token_seconds_count{part="all",warm="true"}'] == 2
    assert (found["readonce_pool_tokens"], found["readonce_pinned_tokens"]) == (16000, 4000)
    assert found["readonce_evicted_blocks_total"] == 7
    assert set(EXPECTED) <= set(found)
