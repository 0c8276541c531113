"""Asks a real engine 200 things in a random order, says before each what its cache holds, and prints what came of it.

Run in a process of its own: vLLM reads its environment once, and loads our plugin only where that names it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from engine.base import Sampling, prefix_id
from engine.bridge_vllm import open_bridge
from engine.inside import prefixes_folder
from engine.registered import Registered
from engine.residency_vllm import open_residency

NUM_CALLS = 200
SALTS = (None, "c2FsdC1vbmU", "c2FsdC10d28")
FIRST_ID, LAST_ID = 100, 20_000


def registered(token_ids: list[int], salt: str | None) -> Registered:
    ids = np.array(token_ids, dtype=np.int32)
    namespace = salt or ""
    prefix = Registered(prefix_id(namespace, ids), namespace, "", ids, salt)
    path = prefixes_folder() / f"{prefix.id}.i32"
    path.parent.mkdir(parents=True, exist_ok=True)
    ids.astype("<i4").tofile(path)
    return prefix


async def run(arguments: dict[str, Any], seed: int) -> dict[str, Any]:
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    client = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    bridge = open_bridge(client, uses_core=True)
    residency = await open_residency(client, bridge)
    await residency.start()
    chance = random.Random(seed)
    instructions = [chance.randint(FIRST_ID, LAST_ID) for _ in range(40)]
    prefixes: list[Registered] = []
    calls: list[dict[str, Any]] = []

    def new_prefix() -> Registered:
        text = instructions + [chance.randint(FIRST_ID, LAST_ID) for _ in range(chance.randint(0, 560))]
        prefix = registered(text, chance.choice(SALTS))
        prefixes.append(prefix)
        if chance.random() < 0.5:  # the same text for others
            prefixes.append(registered(text, chance.choice(SALTS)))
        return prefix

    async def settle(what: str, prefix: Registered, tail: list[int], outputs: Any) -> None:
        prediction = residency.predict(prefix, tail)
        reported, answer = None, []
        async for output in outputs:
            reported = output.cached_tokens if hasattr(output, "cached_tokens") else output.num_cached_tokens
            answer += output.token_ids if hasattr(output, "token_ids") else output.outputs[0].token_ids
        residency.settle(prediction, reported, answer)
        calls.append({"what": what, "salted": prefix.salt is not None} | {
            "predicted": prediction.cached_tokens, "reported": reported,
            "resident": residency.resident_tokens(prefix), "tokens": prefix.num_tokens,
        })  # fmt: skip
        if chance.random() < 0.3 and len(answer) > 8:  # the next turn: history behind the same prefix
            prefixes.append(registered([*prefix.token_ids.tolist(), *tail, *answer[:-1]], prefix.salt))

    num_in_time = num_hurried_right = 0
    for number in range(NUM_CALLS):
        what = chance.choices(["ask", "beside", "read", "forget", "reset"], [60, 15, 10, 6, 4])[0]
        prefix = new_prefix() if not prefixes or chance.random() < 0.15 else chance.choice(prefixes[-12:])
        tail = [chance.randint(FIRST_ID, LAST_ID) for _ in range(chance.randint(1, 70))]
        num_in_time += await residency.caught_up()
        hurried = residency.predict(prefix, tail).cached_tokens
        await residency.confirm()
        num_hurried_right += hurried == residency.predict(prefix, tail).cached_tokens
        sampling = Sampling(max_tokens=chance.choice([1, 1, 8, 40]), ignore_eos=True)
        if what == "ask":
            await settle(what, prefix, tail, bridge.generate(prefix, tail, sampling, f"ask-{number}"))
        elif what == "beside":  # vLLM's own way in, all ids
            prompt = {"prompt_token_ids": [*prefix.token_ids.tolist(), *tail]}
            prompt |= {"cache_salt": prefix.salt} if prefix.salt else {}
            params = SamplingParams(max_tokens=1, detokenize=False)
            await settle(what, prefix, tail, client.generate(prompt, params, f"beside-{number}"))
        elif what == "read":
            tail = [int(prefix.token_ids[0])]
            prediction = residency.predict(prefix, tail)
            reported = await bridge.read(prefix, prefix.num_tokens, 0, f"read-{number}")
            residency.settle(prediction, reported, [0])
            predicted = prediction.cached_tokens
            calls.append({"what": what, "predicted": predicted, "reported": reported, "salted": bool(prefix.salt)})
        elif what == "forget":
            calls.append({"what": what, "dropped": await bridge.forget(prefix)})
        else:
            calls.append({"what": what, "done": await client.reset_prefix_cache()})
    await residency.confirm()
    result = {
        "calls": calls,
        "in_time": num_in_time,
        "hurried_right": num_hurried_right,
        "why_unknown": residency.why_unknown,
        "predictions": residency.predictions,
        "wrong": residency.wrong_predictions,
        "uncertain": residency.uncertain_predictions,
        "evicted_blocks": residency.evicted_blocks,
        "resets": residency.resets,
        "endpoint": client.vllm_config.kv_events_config.endpoint,
    }
    await residency.stop()
    client.shutdown()
    return result


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    Path(sys.argv[2]).write_text(json.dumps(asyncio.run(run(given, int(os.environ.get("SEED", "1"))))))
