"""What the engine gives without HTTP: warm first tokens, a burst on one document, Zipf over eight. One JSON line each.

python tests/gpu/measure_core.py MODEL_DIR NAME [ENGINE_ARGUMENT=JSON ...]
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # a spawned engine core imports this file again, and inherits the folder
    os.environ |= {"READONCE_PLUGIN_STATE": tempfile.mkdtemp(), "VLLM_PLUGINS": "readonce"}
STATE = Path(os.environ["READONCE_PLUGIN_STATE"])
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402 - the state's folder has to be known first

from engine.base import Sampling, prefix_id  # noqa: E402
from engine.bridge import Bridge  # noqa: E402
from engine.registered import Registered  # noqa: E402

VOCABULARY = int(os.environ.get("VOCABULARY", "150000"))


def register(num_tokens: int) -> Registered:
    ids = np.random.randint(100, VOCABULARY, num_tokens, dtype=np.int32)
    registered = Registered(prefix_id("", ids), "", "", ids, "c2FsdA")
    folder = STATE / "prefixes"
    folder.mkdir(exist_ok=True)
    ids.astype("<i4").tofile(folder / f"{registered.id}.i32")
    return registered


def tail(length: int = 64) -> list[int]:
    return [random.randrange(100, VOCABULARY) for _ in range(length)]


async def ask(bridge: Bridge, prefix: Registered, output: int, length: int = 64) -> dict[str, Any]:
    began, times, cached, ids, parts = time.perf_counter(), [], None, [], None
    sampling = Sampling(max_tokens=output, min_tokens=output, ignore_eos=True)
    async for answer in bridge.generate(prefix, tail(length), sampling, f"r{random.getrandbits(60):x}"):
        times.append(time.perf_counter())
        cached, parts = answer.cached_tokens, parts or answer.times
        ids += answer.token_ids
    return {"first": times[0] - began, "total": times[-1] - began, "cached": cached, "times": times, "parts": parts}


def milliseconds(values: list[float]) -> float:
    return round(statistics.median(values) * 1e3, 1)


def say(**row: Any) -> None:
    print(json.dumps(row), flush=True)


async def measure(name: str, arguments: dict[str, Any], model: str, lengths: list[int], many: int) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    from engine.bridge_vllm import open_bridge

    began = time.perf_counter()
    uses_core = arguments.pop("core", True)
    client = AsyncLLM.from_engine_args(AsyncEngineArgs(model=model, **arguments))
    bridge = open_bridge(client, uses_core)
    say(name=name, ready_s=round(time.perf_counter() - began), pool_tokens=bridge.block_size * bridge.num_blocks)
    try:
        warmed = register(2000)
        for _ in range(3):
            await ask(bridge, warmed, 8)
        for length in lengths:
            prefix = register(length)
            cold = await ask(bridge, prefix, 4)
            warm = [await ask(bridge, prefix, 4) for _ in range(8)][1:]
            parts = [answer["parts"] for answer in warm if answer["parts"]]
            say(
                name=name,
                tokens=length,
                cold_ms=round(cold["first"] * 1e3),
                warm_ms=milliseconds([answer["first"] for answer in warm]),
                least_ms=round(min(answer["first"] for answer in warm) * 1e3, 1),
                queue_ms=milliseconds([part.queue_s for part in parts]) if parts else None,
                compute_ms=milliseconds([part.compute_s for part in parts]) if parts else None,
                cached=warm[-1]["cached"],
            )
        prefix = register(lengths[1])
        await ask(bridge, prefix, 4)
        alone = await ask(bridge, prefix, 128)
        gaps = [b - a for a, b in itertools.pairwise(alone["times"])]
        say(name=name, one_stream_ms_per_token=milliseconds(gaps))
        for burst in (many // 4, many):
            for _ in range(2):
                began = time.perf_counter()
                answers = await asyncio.gather(*[ask(bridge, prefix, 128) for _ in range(burst)])
                wall = time.perf_counter() - began
                say(
                    name=name,
                    burst=burst,
                    tokens_per_s=round(burst * 128 / wall),
                    first_ms=milliseconds([answer["first"] for answer in answers]),
                    decode_tokens_per_s=round(burst * 127 / (wall - max(a["first"] for a in answers))),
                )
        documents = [register(lengths[1] * 15 // 16) for _ in range(8)]
        for document in documents:
            await ask(bridge, document, 4)
        weights = [1 / (rank + 1) for rank in range(8)]
        queue = random.Random(7).choices(documents, weights, k=2 * many)
        answers = []

        async def worker() -> None:
            while queue:
                answers.append(await ask(bridge, queue.pop(), 64))

        began = time.perf_counter()
        await asyncio.gather(*[worker() for _ in range(many // 4)])
        wall = time.perf_counter() - began
        say(
            name=name,
            zipf=len(answers),
            questions_per_s=round(len(answers) / wall, 1),
            first_ms=milliseconds([answer["first"] for answer in answers]),
            hit_rate=round(
                sum(a["cached"] for a in answers) / (len(answers) * (lengths[1] * 15 // 16 + 64)),
                4,
            ),
        )
        if len(lengths) > 2:
            await _gap(name, bridge, lengths[2])
    finally:
        client.shutdown()


async def _gap(name: str, bridge: Bridge, length: int) -> None:
    """Eight answers run on 8k documents while one long cold document is read in by vLLM itself."""
    documents = [register(8000) for _ in range(8)]
    for document in documents:
        await ask(bridge, document, 4)
    running = [asyncio.create_task(ask(bridge, document, 1200)) for document in documents]
    await asyncio.sleep(1.0)
    cold = asyncio.create_task(ask(bridge, register(length), 4))
    await asyncio.sleep(1.0)
    early = await ask(bridge, documents[0], 4)
    await asyncio.sleep(4.0)
    late = await ask(bridge, documents[1], 4)
    times = [(await task)["times"] for task in running]
    gaps = sorted(b - a for one in times for a, b in itertools.pairwise(one))
    say(
        name=name,
        gap_p50_ms=milliseconds(gaps),
        gap_p99_ms=round(gaps[int(len(gaps) * 0.99)] * 1e3, 1),
        gap_max_ms=round(gaps[-1] * 1e3, 1),
        warm_early_ms=round(early["first"] * 1e3, 1),
        warm_late_ms=round(late["first"] * 1e3, 1),
        cold_s=round((await cold)["first"], 2),
    )


if __name__ == "__main__":
    model, name, *rest = sys.argv[1:]
    given = {key: json.loads(value) for key, _, value in (word.partition("=") for word in rest)}
    lengths, many = given.pop("lengths", [2000, 32000, 120000]), given.pop("many", 128)
    asyncio.run(measure(name, given, model, lengths, many))
