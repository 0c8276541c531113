"""Shows on a GPU that our launch line starts, that a second question reuses its document, and that nothing outlives it.

usage: python tests/gpu/check_engine.py MODEL_FOLDER [--lengths 2000,32000,120000] [--dummy]

Prints one JSON object a line. With --dummy the folder needs no weights: vLLM invents them (true speed, invented words).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engine.base import Finish, Prompt, Receipt, Sampling
from engine.client import Client
from engine.fit import fit_folder
from engine.lease import connect
from engine.profiles import choose
from engine.prompt import Layout, SectionText
from engine.server import EngineSettings
from engine.tokenizer import Tokenizer

WORDS = ("berth", "harbour", "crane", "ferry", "rope", "lamp", "buoy", "ledger", "gull", "tide", "pilot", "anchor")
QUESTIONS = ("Who keeps the ledger?", "When does the ferry leave?", "How high is the tide?", "Where is the pilot?")


def paragraphs(num_tokens: int) -> tuple[tuple[int, str], ...]:
    """Fresh text of about `num_tokens` tokens; nothing of it was ever cached."""
    rows = []
    for number in range(1, max(2, num_tokens // 155) + 1):
        words = " ".join(f"{random.choice(WORDS)} {random.randrange(1000)}" for _ in range(30))
        rows.append((number, words))
    return tuple(rows)


async def answer(client: Client, prompt: Prompt) -> Receipt:
    async for event in client.generate(prompt, Sampling(max_tokens=32)):
        if isinstance(event, Finish):
            return event.receipt
    raise AssertionError("a stream without its receipt")


async def cold_and_warm(client: Client, layout: Layout, num_tokens: int) -> dict[str, object]:
    prefix = layout.prefix([layout.section_ids(SectionText("A made-up book", paragraphs(num_tokens)))])
    receipts = [await answer(client, layout.ask(prefix, question)) for question in QUESTIONS]
    warm_ms = sorted(receipt.first_token_ms or 0.0 for receipt in receipts[1:])
    return {
        "prompt_tokens": receipts[0].prompt_tokens,
        "cold_ms": round(receipts[0].first_token_ms or 0.0, 1),
        "warm_ms": round(warm_ms[len(warm_ms) // 2], 1),
        "cached_tokens": [receipt.cached_tokens for receipt in receipts],
        "cold_because": [receipt.cold_because for receipt in receipts],
    }


def processes() -> list[str]:
    """Command lines of what belongs to an engine."""
    out = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in out.splitlines() if "engine.launch" in line or "VLLM::" in line]


def left_after(seconds: float) -> list[str]:
    deadline = time.monotonic() + seconds
    while processes() and time.monotonic() < deadline:
        time.sleep(0.5)
    return processes()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lengths", default="2000,32000,120000")
    parser.add_argument("--dummy", action="store_true")
    parser.add_argument("--hold", action="store_true", help="start an engine and hold it (used by this script itself)")
    given = parser.parse_args()
    state_dir = Path(os.environ.get("STATE_DIR") or tempfile.mkdtemp())
    settings = EngineSettings(
        model=str(given.folder),
        state_dir=state_dir,
        cache_dir=state_dir,
        device="cuda",
        max_model_len=131072,
        extra_args=("--load-format", "dummy") if given.dummy else (),
    )
    began = time.monotonic()
    try:
        lease = connect(settings, None if given.hold else lambda words: None)
    except BaseException:
        print((state_dir / "engine.log").read_text()[-6000:], file=sys.stderr)
        raise
    if given.hold:
        print("ready", flush=True)
        time.sleep(3600)
    engine = lease.engine
    ready = {"ready_s": round(time.monotonic() - began, 1), "vllm": engine.version, "block_size": engine.block_size}
    fitted = fit_folder(settings, choose(settings.profile, "cuda"), given.folder)
    predicted = {"num_blocks_predicted": fitted.pool.num_blocks if fitted else None}
    print(
        json.dumps(ready | {"num_blocks": engine.num_blocks, "max_model_len": engine.max_model_len} | predicted),
        flush=True,
    )

    async def measure() -> None:
        client, layout = Client(engine), Layout(Tokenizer(given.folder))
        await cold_and_warm(client, layout, 500)  # the first request compiles
        for length in given.lengths.split(","):
            print(json.dumps(await cold_and_warm(client, layout, int(length))), flush=True)
        await client.close()

    asyncio.run(measure())

    # A second holder joins, this one leaves in peace, and the second is killed: nothing may be left.
    holder = subprocess.Popen(
        [sys.executable, __file__, str(given.folder), "--hold", *(["--dummy"] if given.dummy else [])],
        env=os.environ | {"STATE_DIR": str(state_dir)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    joined = holder.stdout.readline().strip() == "ready"
    lease.close()
    time.sleep(2)
    kept = len(processes())
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    print(
        json.dumps({"joined": joined, "kept_for_the_second": kept, "left_10_s_after_kill": left_after(10)}), flush=True
    )


if __name__ == "__main__":
    main()
