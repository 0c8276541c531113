"""Decides how recorded traffic is played again: each request at its time, over invented words that repeat as it did.

A trace is JSON lines {"timestamp": ms, "input_length", "output_length", "hash_ids": [one a block of 512 tokens]}: where
two requests have the same hash, their prompts are the same up to there. What another request has too is the document,
what a request has alone is its question.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import math
import statistics
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base import EngineError
from engine.bench.base import Document, System, Timing
from engine.bench.documents import Writer
from engine.bench.results import Replay, Stopwatch, first_ms, first_p95_ms, hit_rate
from engine.bench.scenarios import end
from engine.bench.sizes import Scale

RECORDED_BLOCK_TOKENS = 512
# What a chat template adds to a prompt, and that words encoded again may be a few tokens more.
_ROOM_TOKENS = 64


@dataclass(frozen=True)
class Request:
    """One of a trace's.

    Attributes:
        at_s: Seconds after the trace's first request.
        num_tokens, num_output: Of prompt and answer.
        block_ids: One a block of `RECORDED_BLOCK_TOKENS`, the last one may be short.
    """

    at_s: float
    num_tokens: int
    num_output: int
    block_ids: tuple[int, ...]

    def resized(self, block_tokens: int) -> Request:
        """The same with blocks of another size, prompt and answer shrunk or grown with them."""
        factor = block_tokens / RECORDED_BLOCK_TOKENS
        return Request(
            self.at_s,
            max(2, math.floor(self.num_tokens * factor)),
            max(1, math.floor(self.num_output * factor)),
            self.block_ids,
        )


def load(path: Path) -> tuple[Request, ...]:
    """A trace, in order of time.

    Raises:
        EngineError: `trace_unreadable`.
    """
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        requests = [
            Request(
                row["timestamp"] / 1000,
                int(row["input_length"]),
                int(row["output_length"]),
                tuple(int(block) for block in row["hash_ids"]),
            )
            for row in rows
        ]
        for number, request in enumerate(requests, 1):
            if len(request.block_ids) * RECORDED_BLOCK_TOKENS < request.num_tokens or not request.block_ids:
                raise ValueError(f"request {number} has fewer blocks than its {request.num_tokens} tokens fill")
        if not requests:
            raise ValueError("it has no request")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise EngineError(
            "trace_unreadable",
            f"{path} is no trace that can be played ({type(error).__name__}: {error}); give JSON lines with timestamp, "
            "input_length, output_length and hash_ids.",
        ) from error
    requests.sort(key=lambda request: request.at_s)
    return tuple(requests)


@dataclass(frozen=True)
class Planned:
    """A request as it is asked."""

    at_s: float
    document: Document
    question_ids: tuple[int, ...]
    num_output: int

    @property
    def num_tokens(self) -> int:
        return self.document.num_tokens + len(self.question_ids)


def plan(requests: Sequence[Request], writer: Writer, block_tokens: int) -> list[Planned]:
    """Gives each block words of its own, and cuts each prompt where its own words begin."""
    uses = collections.Counter(block for request in requests for block in request.block_ids)
    blocks: dict[int, tuple[int, ...]] = {}
    documents: dict[tuple[tuple[int, ...], int], Document] = {}
    planned = []
    for request in requests:
        ids: list[int] = []
        for block in request.block_ids:
            if block not in blocks:
                blocks[block] = writer.ids(block_tokens)
            ids += blocks[block]
        ids = ids[: request.num_tokens]
        num_shared = sum(uses[block] > 1 for block in request.block_ids) or len(request.block_ids) - 1
        # At least one token is the question's, and one the document's.
        cut = max(1, min(num_shared * block_tokens, request.num_tokens - 1))
        key = (request.block_ids[: max(1, num_shared)], cut)
        if key not in documents:
            documents[key] = writer.of_ids(tuple(ids[:cut]))
        planned.append(Planned(request.at_s, documents[key], tuple(ids[cut:]), request.num_output))
    return planned


def best_hit_rate(requests: Sequence[Request], block_tokens: int) -> float:
    """What a cache that forgets nothing would give: whole blocks that an earlier request had, of all tokens."""
    seen: set[int] = set()
    num_cached = 0
    for request in requests:
        known = sum(block in seen for block in request.block_ids)
        num_cached += min(known * block_tokens, request.num_tokens - 1)
        seen.update(request.block_ids)
    return round(num_cached / sum(request.num_tokens for request in requests), 4)


async def replay(
    system: System, writer: Writer, scale: Scale, recorded: Sequence[Request], max_model_len: int
) -> AsyncIterator[Replay]:
    """Plays the first `scale.replay_requests` that the engine can read."""
    sized = [request.resized(scale.replay_block_tokens) for request in recorded]
    fitting = [request for request in sized if request.num_tokens + request.num_output + _ROOM_TOKENS <= max_model_len]
    chosen = fitting[: scale.replay_requests]
    if not chosen:
        raise EngineError(
            "context_too_short",
            f"The engine reads {max_model_len:,} tokens at once, and the trace's shortest request has more; "
            "raise max_model_len.",
        )
    first_s, last_s = chosen[0].at_s, chosen[-1].at_s
    left_out = sum(request.at_s <= last_s for request in sized) - sum(request.at_s <= last_s for request in fitting)
    planned = plan(chosen, writer, scale.replay_block_tokens)
    async with contextlib.AsyncExitStack() as stack:
        watch = Stopwatch()
        began_s = asyncio.get_running_loop().time()
        tasks = [
            asyncio.create_task(_ask_at(system, request, began_s + (request.at_s - first_s) / scale.replay_speed))
            for request in planned
        ]
        stack.push_async_callback(end, tasks)
        timings = await asyncio.gather(*tasks)
        wall_s, client_cpu_share = watch.stop()
    yield Replay(
        requests=len(planned),
        left_out=left_out,
        mean_prompt_tokens=round(statistics.mean(request.num_tokens for request in planned), 1),
        hit_rate=hit_rate(timings),
        best_hit_rate=best_hit_rate(chosen, scale.replay_block_tokens),
        first_ms=first_ms(timings),
        first_p95_ms=first_p95_ms(timings),
        requests_per_s=round(len(timings) / wall_s, 2),
        recorded_s=round((last_s - first_s) / scale.replay_speed, 3),
        wall_s=round(wall_s, 3),
        client_cpu_share=client_cpu_share,
    )


async def _ask_at(system: System, request: Planned, at_s: float) -> Timing:
    await asyncio.sleep(at_s - asyncio.get_running_loop().time())
    return await system.ask(request.document, request.question_ids, request.num_output)
