"""Plays a recorded trace with eight people on a real engine, and holds what was reused against an ideal cache.

usage: READONCE_HOME=... python tests/load/eight_people.py PACK [--people 8] [--seconds 600] [--model NAME] [--add-only]

PACK holds `documents.jsonl` and `trace.jsonl`. The trace's users are dealt out to so many people, who ask at its times;
their chats are its sessions, and who is still answered waits. The ideal is a cache that never forgets too early: the
very prompts in the order in which they were asked, block by block, evicted by last use where the pool is full, with
everything of an earlier prompt and its answer there at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.answer import Answer
from app.assistant import Assistant
from app.conversation import Conversation
from app.settings import Settings
from engine.base import Delta, Finish, Prompt, Receipt, Sampling

KB = "evaluation"


@dataclass
class Heard:
    """One call of the engine; `at` of each piece in seconds on the monotonic clock."""

    prompt: Prompt
    sent: float
    pieces: list[float] = field(default_factory=list)
    output: tuple[int, ...] = ()
    receipt: Receipt | None = None

    @property
    def longest_gap_s(self) -> float:
        return max((after - before for before, after in zip(self.pieces, self.pieces[1:], strict=False)), default=0.0)


def listen(engine: Any) -> list[Heard]:
    """Has the engine write down each call from now on."""
    heard: list[Heard] = []
    generate = engine.generate

    async def noted(prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
        call = Heard(prompt, time.monotonic())
        heard.append(call)
        async with aclosing(generate(prompt, sampling)) as events:
            async for event in events:
                if isinstance(event, Finish):
                    call.receipt, call.output = event.receipt, tuple(event.token_ids)
                else:
                    call.pieces.append(time.monotonic())
                yield event

    engine.generate = noted
    return heard


def ideal_reuse(calls: Sequence[tuple[Sequence[int], Sequence[int]]], block: int, capacity: int | None) -> list[int]:
    """The prompt tokens of each call that such a cache gives back.

    Args:
        calls: Prompt and answer of each call, in order.
        capacity: Tokens of the pool; None: no limit.
    """
    blocks: OrderedDict[int, None] = OrderedDict()
    most = None if capacity is None else capacity // block
    reused = []
    for prompt, output in calls:
        key, hit = 0, True
        reused.append(0)
        usable = (len(prompt) - 1) // block  # at least one token is computed
        tokens = (*prompt, *output)
        for number in range(len(tokens) // block):
            key = hash((key, tuple(tokens[number * block : (number + 1) * block])))
            hit = hit and key in blocks and number < usable
            reused[-1] += block if hit else 0
            blocks[key] = None
            blocks.move_to_end(key)
        while most is not None and len(blocks) > most:
            blocks.popitem(last=False)
    return reused


def add_pack(assistant: Assistant, pack: Path) -> dict[str, str]:
    """The ids that the pack's documents have here."""
    ids = {}
    for document in rows(pack / "documents.jsonl"):
        print(f"Adding {document['id']}", flush=True)
        ids[document["id"]] = assistant.add(pack / document["path"], kb=KB).document_id
    return ids


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


async def play(assistant: Assistant, ids: dict[str, str], requests: list[dict[str, Any]]) -> list[Answer]:
    """Everybody's questions at their times. Returns the answers in which a model was asked."""
    answers: list[Answer] = []
    chats: dict[str, Conversation] = {}
    began, first = time.monotonic(), requests[0]["t_seconds"]

    async def person(own: list[dict[str, Any]]) -> None:
        for request in own:
            await asyncio.sleep(max(0.0, began + request["t_seconds"] - first - time.monotonic()))
            chat = chats.setdefault(request["session"], Conversation())
            asked = assistant.ask(
                request["question"],
                kb=KB,
                doc_id=ids[request["doc_id"]],
                conversation=chat,
                session=f"chat-{request['session']}",
            )
            async for event in asked:
                if isinstance(event, Answer) and event.receipt is not None:
                    answers.append(event)
            print(f"{time.monotonic() - began:6.0f} s  {request['user']} {request['request_id']}", flush=True)

    people = {request["user"]: [] for request in requests}
    for request in requests:
        people[request["user"]].append(request)
    await asyncio.gather(*(person(own) for own in people.values()))
    return answers


def share_of(percent: float, values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(percent * len(ordered)))] if ordered else 0.0


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pack", type=Path)
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--skip", type=int, default=0, help="requests of the trace's beginning")
    parser.add_argument("--model")
    parser.add_argument("--add-only", action="store_true")
    chosen = parser.parse_args()
    settings = Settings.load(model=chosen.model)
    # What an earlier run had read would be read again, and more would be reused than the ideal knows of.
    shutil.rmtree(settings.home / "engine", ignore_errors=True)
    assistant = Assistant.open(settings)
    try:
        ids = await asyncio.to_thread(add_pack, assistant, chosen.pack)
        if chosen.add_only:
            return
        trace = rows(chosen.pack / "trace.jsonl")
        later = trace[chosen.skip :]
        asked = [each for each in later if each["t_seconds"] - later[0]["t_seconds"] <= chosen.seconds]
        names = list(dict.fromkeys(each["user"] for each in asked))
        dealt = {name: f"person {number % chosen.people + 1}" for number, name in enumerate(names)}
        requests = [each | {"user": dealt[each["user"]]} for each in asked]
        await assistant.start(lambda sentence: print(sentence, flush=True))
        await assistant.warm_engine()
        heard = listen((await assistant.reader()).engine)
        before = os.times()
        answers = await play(assistant, ids, requests)
        view = await asyncio.to_thread(assistant.cache)
        print(json.dumps(told(heard, answers, requests, view, os.times().user - before.user), indent=1))
    finally:
        await assistant.close(linger=False)


def told(heard: list[Heard], answers: list[Answer], requests: list[Any], view: Any, cpu_s: float) -> dict[str, Any]:
    receipts = [answer.receipt for answer in answers if answer.receipt is not None]
    reported = [receipt for receipt in receipts if receipt.cached_tokens is not None]
    share = sum(each.cached_tokens or 0 for each in reported) / max(1, sum(each.prompt_tokens for each in reported))
    asked = [call for call in heard if call.receipt is not None]
    calls = [(call.prompt.token_ids, call.output) for call in asked]
    block, pool = (view.block_size, view.pool_tokens) if view is not None else (32, None)
    total = sum(call.prompt.num_tokens for call in asked)
    of_pool = ideal_reuse(calls, block, pool)
    kept, unlimited = sum(of_pool) / total, sum(ideal_reuse(calls, block, None)) / total
    all_share = sum(call.receipt.cached_tokens or 0 for call in asked if call.receipt) / total
    firsts = [receipt.first_token_ms / 1000 for receipt in receipts if receipt.first_token_ms is not None]
    return {
        "people": len({request["user"] for request in requests}),
        "requests": len(requests),
        "answers of the model": len(receipts),
        "prompt tokens": sum(receipt.prompt_tokens for receipt in receipts),
        "cached share, the answers": round(share, 4),
        "cached share, all calls": round(all_share, 4),
        "ideal, this pool": round(kept, 4),
        "ideal, no limit": round(unlimited, 4),
        "of the ideal": round(all_share / kept, 4) if kept else None,
        "pool tokens": pool,
        "block": block,
        "each call: prompt, cached, ideal": [
            f"{call.prompt.num_tokens} {call.receipt.cached_tokens} {ideal}"
            for call, ideal in zip(asked, of_pool, strict=True)
            if call.receipt is not None
        ],
        "first token p50, p95, worst (s)": [round(share_of(each, firsts), 2) for each in (0.5, 0.95, 1.0)],
        "longest pause in a stream p95, worst (s)": [
            round(share_of(each, [call.longest_gap_s for call in asked]), 2) for each in (0.95, 1.0)
        ],
        "cold because": dict(Counter(str(receipt.cold_because) for receipt in receipts)),
        "wrong predictions": view.wrong_predictions if view is not None else None,
        "CPU of this process (s)": round(cpu_s, 1),
        "load average": [round(each, 1) for each in os.getloadavg()],
    }


if __name__ == "__main__":
    asyncio.run(main())
