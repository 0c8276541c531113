"""Recorded traffic: what is shared in it is shared again, each request comes at its time, and the figures are exact."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual import FakeSystem, run

from engine.base import EngineError
from engine.bench.documents import Writer
from engine.bench.replay import Planned, Request, best_hit_rate, load, plan, replay
from engine.bench.results import Replay
from engine.bench.sizes import SCALES

RECORDED = Path(__file__).parents[3] / "shared" / "eval" / "traces" / "mooncake_conversation_first1000.jsonl"
BLOCK = 16


class Numbers:
    """In place of a tokenizer: a word is a number, and no number comes twice."""

    def __init__(self) -> None:
        self._next = 0

    def encode_text(self, text: str) -> tuple[int, ...]:
        count = len(text.split())
        self._next += count
        return tuple(range(self._next - count, self._next))

    def decode(self, ids: object) -> str:
        return str(ids)


def writer() -> Writer:
    return Writer(Numbers(), seed=1)


def request(at_s: float, num_tokens: int, *blocks: int, num_output: int = 2) -> Request:
    return Request(at_s, num_tokens, num_output, blocks)


def ids(planned: Planned) -> tuple[int, ...]:
    return planned.document.ids + planned.question_ids


def test_document_is_what_another_request_has_too() -> None:
    """Two requests share two blocks; the third is alone, and its last block is the question."""
    requests = [request(0, 40, 1, 2, 3), request(1, 60, 1, 2, 4, 5), request(2, 45, 7, 8, 9)]
    first, second, alone = plan(requests, writer(), BLOCK)
    assert first.document is second.document
    assert [one.document.num_tokens for one in (first, second, alone)] == [32, 32, 32]
    assert [len(one.question_ids) for one in (first, second, alone)] == [8, 28, 13]
    assert set(alone.document.ids) & set(first.document.ids) == set()


def test_a_prompt_that_is_all_shared_keeps_one_token_for_its_question() -> None:
    """And one of a single token more than nothing keeps one for its document."""
    whole, same, tiny = plan([request(0, 32, 1, 2), request(1, 32, 1, 2), request(2, 2, 3)], writer(), BLOCK)
    assert (whole.document.num_tokens, len(whole.question_ids)) == (31, 1)
    assert same.document is whole.document
    assert (tiny.document.num_tokens, len(tiny.question_ids)) == (1, 1)


@st.composite
def traces(draw: st.DrawFn) -> list[Request]:
    """Chains that branch: each request continues an earlier one's blocks or begins anew."""
    chains: list[tuple[int, ...]] = [()]
    requests = []
    fresh = 0
    for number in range(draw(st.integers(1, 8))):
        base = draw(st.sampled_from(chains))
        base = base[: draw(st.integers(0, len(base)))]
        own = draw(st.integers(1, 3))
        chain = (*base, *range(fresh, fresh + own))
        fresh += own
        chains.append(chain)
        num_tokens = draw(st.integers(max(2, (len(chain) - 1) * BLOCK + 1), len(chain) * BLOCK))
        requests.append(request(float(number), num_tokens, *chain))
    return requests


@given(traces())
def test_prompts_are_as_long_as_recorded_and_the_same_as_far_as_recorded(requests: list[Request]) -> None:
    """Two prompts begin alike for exactly as long as their hashes are the same."""
    planned = plan(requests, writer(), BLOCK)
    for one, recorded in zip(planned, requests, strict=True):
        assert one.num_tokens == recorded.num_tokens
        assert one.document.num_tokens >= 1
        assert len(one.question_ids) >= 1
        for other, other_recorded in zip(planned, requests, strict=True):
            shared = 0
            while recorded.block_ids[shared : shared + 1] == other_recorded.block_ids[shared : shared + 1] != ():
                shared += 1
            expected = min(shared * BLOCK, one.num_tokens, other.num_tokens)
            pairs = zip(ids(one), ids(other), strict=False)
            same = next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(ids(one)), len(ids(other))))
            assert same == expected


def test_best_hit_rate_counts_blocks_that_came_before() -> None:
    """Never the whole of a prompt: at least one token is computed."""
    requests = [request(0, 40, 1, 2, 3), request(1, 60, 1, 2, 4, 5), request(2, 32, 1, 2)]
    assert best_hit_rate(requests, BLOCK) == round((0 + 32 + 31) / 132, 4)


def test_replay_asks_each_request_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as fast as recorded; what the engine can't read is left out and counted.

    Both share 64 tokens, which the first one reads in 64 ms beside the host's 5 ms and 10 ms a token.
    """
    monkeypatch.setattr(time, "process_time", lambda: 7.0)
    recorded = [
        Request(10.0, 1100, 64, (1, 2, 101)),
        Request(12.0, 512 * 100, 64, tuple(range(1, 101))),
        Request(13.0, 1280, 64, (1, 2, 3)),
        Request(99.0, 512 * 100, 64, tuple(range(1, 101))),
    ]
    scale = replace(SCALES["cpu"], replay_requests=10, replay_block_tokens=32, replay_speed=2.0)
    system = FakeSystem()

    async def play() -> list[Replay]:
        return [result async for result in replay(system, writer(), scale, recorded, 1000)]

    assert run(play()) == [
        Replay(
            requests=2,
            left_out=1,
            mean_prompt_tokens=74.0,  # 68 and 80
            hit_rate=round(64 / 148, 4),
            best_hit_rate=round(64 / 148, 4),
            first_ms=47.0,
            first_p95_ms=79.0,
            requests_per_s=1.29,
            recorded_s=1.5,
            wall_s=1.545,
            client_cpu_share=0.0,
        )
    ]
    assert system.began_at_s == [0.0, 1.5]


def test_nothing_fits_is_one_sentence() -> None:
    """A trace of long prompts on a short context."""

    async def play() -> None:
        async for _ in replay(FakeSystem(), writer(), SCALES["gpu"], [request(0, 5000, *range(10))], 2048):
            pass

    with pytest.raises(EngineError, match="raise max_model_len") as caught:
        run(play())
    assert caught.value.code == "context_too_short"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        '{"timestamp": 0, "input_length": 5}',
        '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}',
        '{"timestamp": "now", "input_length": 5, "output_length": 1, "hash_ids": [1]}',
    ],
)
def test_what_is_no_trace_is_one_sentence(tmp_path: Path, text: str) -> None:
    """Empty, broken, without a field, with too few blocks, with words for numbers."""
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(EngineError, match="is no trace that can be played") as caught:
        load(path)
    assert caught.value.code == "trace_unreadable"


def test_a_trace_is_read_in_order_of_time(tmp_path: Path) -> None:
    """Milliseconds become seconds."""
    rows = [
        {"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 1]},
        {"timestamp": 500, "input_length": 5, "output_length": 1, "hash_ids": [4]},
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert load(path) == (Request(0.5, 5, 1, (4,)), Request(3.0, 600, 7, (0, 1)))


@pytest.mark.skipif(not RECORDED.exists(), reason="the evaluation material is not beside the checkout")
def test_the_public_trace_can_be_played() -> None:
    """A thousand requests in 330 s; the first 200 shrink to what two cores read."""
    requests = load(RECORDED)
    assert (len(requests), requests[-1].at_s) == (1000, 330.0)
    sized = [one.resized(32) for one in requests[:200]]
    assert sized[0].num_tokens == 6758 * 32 // 512
    planned = plan(sized, writer(), 32)
    assert [one.num_tokens for one in planned] == [one.num_tokens for one in sized]
    assert best_hit_rate(sized, 32) == best_hit_rate(requests[:200], 512)
