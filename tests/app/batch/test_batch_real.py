"""A batch on a real vLLM with SmolLM2: what is computed, by the engine's own count, and whom it makes wait."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import statistics
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from library import NAMES, long_text, write
from platformdirs import user_cache_dir

from app.answer import Answer
from app.assistant import Assistant
from app.batch.cost import cost_words
from app.batch.options import BatchOptions
from app.batch.progress import Progress
from app.batch.question import BatchAnswer, BatchQuestion
from app.batch.run import cost, run
from app.batch.timing.measure import measure
from app.settings import Settings

pytestmark = pytest.mark.engine

PACK = Path(__file__).parents[4] / "shared" / "eval" / "qa"
CACHE = os.environ.get("READONCE_CACHE") or str(Path(user_cache_dir("readonce")) / "models")
PLAIN_ROWS = 20
_ENDED = re.compile(r"^vllm:request_success_total\{[^}]*\} (\S+)$", re.MULTILINE)
_COMPUTED = re.compile(r'^vllm:prompt_tokens_by_source_total\{[^}]*source="local_compute"[^}]*\} (\S+)$', re.MULTILINE)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A pool of three sections of this model, with room for short answers."""
    return Settings.load(
        home=tmp_path / "home",
        cache=Path(CACHE),
        model="smollm2-135m",
        kv_cache_gib=0.22,
        max_model_len=8_192,
        answer_tokens=32,
        search_help="off",
        keep_alive_s=0,
    )


def counters(assistant: Assistant) -> tuple[int, int]:
    """(prompt tokens computed, requests ended) since the engine's start, by vLLM's own count."""
    url = assistant.engine_status().url
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        said = answer.read().decode()
    computed, ended = (sum(float(value) for value in one.findall(said)) for one in (_COMPUTED, _ENDED))
    return round(computed), round(ended)


async def ask(assistant: Assistant, question: str, doc_id: str) -> Answer:
    async for event in assistant.ask(question, doc_id=doc_id):
        if isinstance(event, Answer):
            return event
    raise AssertionError("no answer came")


async def first_token_ms(assistant: Assistant, question: str, doc_id: str) -> float:
    receipt = (await ask(assistant, question, doc_id)).receipt
    assert receipt is not None
    assert receipt.first_token_ms is not None
    return receipt.first_token_ms


async def test_a_dry_run_is_right_to_the_token(settings: Settings, tmp_path: Path) -> None:
    """What it says is what vLLM counts, but for one token in each further step of a read; the time is told beside."""
    assistant = Assistant.open(settings)
    try:
        for number in range(6):
            write(tmp_path, f"station-{number}.md", f"# Station {number}\n\n" + long_text(3))
            await asyncio.to_thread(assistant.add, tmp_path / f"station-{number}.md")
        questions = [
            BatchQuestion(row, str(row), f"What colour is pump {NAMES[row % 3]}, {row}?", f"station-{row % 6}.md")
            for row in range(36)
        ]
        # How long answers are it learns from a batch with instructions of its own: nothing of it is found again.
        await run(
            assistant, questions[:3], BatchOptions(instructions="Answer from the document, and name a paragraph.")
        )
        await measure(assistant, BatchOptions())
        said = await cost(assistant, questions)
        before = counters(assistant)
        result = await run(assistant, questions)
        computed, ended = (now - then for now, then in zip(counters(assistant), before, strict=True))
    finally:
        await assistant.close(linger=False)
    progress = result.progress
    steps = ended - progress.num_asked - progress.num_reads
    receipts = progress.prompt_tokens - progress.cached_tokens
    print(
        f"\n{cost_words(said)} It took {progress.elapsed_s:.0f} s, {progress.num_reads} prefills and {computed:,}"
        f" tokens, {steps} of them in further steps; said: {said.read_tokens:,} + {said.question_tokens:,}, by the"
        f" receipts {progress.read_tokens:,} + {receipts:,}"
    )
    assert (said.questions, said.reads, progress.num_reads, progress.num_failed) == (36, 6, 6, 0)
    assert computed - steps == said.computed_tokens
    assert progress.read_tokens == said.read_tokens


@pytest.mark.skipif(not PACK.is_dir(), reason="the shared evaluation material is not beside this checkout")
async def test_a_shuffled_file_reads_each_section_once(settings: Settings) -> None:
    """214 questions about ten documents in any order; the same file through a plain loop reads nearly each time."""
    assistant = Assistant.open(settings)
    try:
        names = {}
        for line in (PACK / "documents.jsonl").read_text(encoding="utf-8").splitlines():
            document = json.loads(line)
            names[document["id"]] = Path(document["path"]).name
            await asyncio.to_thread(assistant.add, PACK / document["path"])
        asked = [json.loads(line) for line in (PACK / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
        in_file = [
            BatchQuestion(row, one["id"], one["question"], names[one["doc_id"]]) for row, one in enumerate(asked)
        ]
        shuffled = random.Random(3).sample(in_file, len(in_file))
        questions = [replace(question, row=row) for row, question in enumerate(shuffled)]
        said = await cost(assistant, questions)
        print(f"\n{cost_words(said)}", flush=True)
        before = counters(assistant)
        result = await run(assistant, questions)
        computed, ended = (now - then for now, then in zip(counters(assistant), before, strict=True))
        view = assistant.cache()
        pool_tokens = view.pool_tokens if view else 0

        before, num_plain = counters(assistant), 0
        for question in shuffled[:PLAIN_ROWS]:
            answer = await ask(assistant, question.question, assistant.find(question.document or "").id)
            num_plain += answer.receipt is not None  # None: nothing relevant was found, and no model was asked
        plain = (counters(assistant)[0] - before[0]) / num_plain
    finally:
        await assistant.close(linger=False)
    progress = result.progress
    each = computed / progress.num_asked
    # A read goes in steps, as many as the machine's load asks for, with one token more in each but the first.
    steps = ended - progress.num_asked - progress.num_reads
    print(
        f"{len(questions)} questions, {progress.num_asked} to the model, {said.prefixes} sections, a pool of"
        f" {pool_tokens:,} tokens: {progress.num_reads} prefills, {computed:,} tokens computed, {steps} of them in"
        f" further steps of reading, {progress.reuse:.1%} reused, {progress.elapsed_s:.0f} s,"
        f" {progress.num_failed} failed; a plain loop computes {plain:,.0f} tokens a question, the batch {each:,.0f}"
    )
    assert (len(result.answers), progress.num_failed) == (len(questions), 0)
    assert progress.num_reads <= 1.05 * said.prefixes
    assert (progress.num_reads, computed - steps) == (said.reads, said.computed_tokens)
    assert plain > 1.5 * each, "the plain loop reads sections again that it has read"


async def test_schemas_hold_and_chats_go_first(settings: Settings, tmp_path: Path) -> None:
    """Fifty rows with a number, a choice and a text; meanwhile a live question waits about as long as before."""
    # Some 30 tokens where the model writes its JSON closely, and more where it indents it.
    settings = settings.model_copy(update={"kv_cache_gib": 1.0, "answer_tokens": 96})
    assistant = Assistant.open(settings)
    schema = {
        "type": "object",
        "properties": {
            "colour": {"enum": ["red", "blue", "green", "yellow", "white"]},
            "revolutions": {"type": "integer", "minimum": 0, "maximum": 9999},
            "name": {"type": "string", "maxLength": 12},
        },
        "required": ["colour", "revolutions", "name"],
        "additionalProperties": False,
    }
    try:
        for number in range(5):
            write(tmp_path, f"pumps-{number}.md", f"# Station {number}\n\n" + long_text(4))
            await asyncio.to_thread(assistant.add, tmp_path / f"pumps-{number}.md")
        live = (await asyncio.to_thread(assistant.add, write(tmp_path, "live.md", long_text(3)))).document_id
        questions = [
            BatchQuestion(row, str(row), f"Speed and colour of pump {NAMES[row % 4]}, {row}?", f"pumps-{row % 5}.md")
            for row in range(50)
        ]
        idle = [await first_token_ms(assistant, f"What colour is pump {name}?", live) for name in NAMES]
        ended = asyncio.Event()
        met: list[float] = []

        async def chat() -> None:
            number = 0
            while not ended.is_set():
                number += 1
                met.append(await first_token_ms(assistant, f"How fast is pump {NAMES[number % 3]}, {number}?", live))

        answered: list[int] = []

        def told(answer: BatchAnswer | None, progress: Progress) -> None:
            if answer is not None:
                answered.append(len(met))

        chatting = asyncio.create_task(chat())
        options = BatchOptions(schema=json.dumps(schema))
        result = await run(assistant, questions, options, told=told)
        ended.set()
        await chatting
    finally:
        await assistant.close(linger=False)
    print(
        f"\nfirst token of a live question: idle {statistics.median(idle[1:]):.0f} ms, during the batch"
        f" {statistics.median(met):.0f} ms (at worst {max(met):.0f}, {len(met)} questions);"
        f" {result.progress.num_failed} of {len(result.answers)} failed in {result.progress.elapsed_s:.0f} s;"
        f" answers like {result.answers[0].answer}"
    )
    valid = Draft202012Validator(schema)
    assert [answer.error for answer in result.answers] == [None] * 50
    assert all(valid.is_valid(json.loads(answer.answer)) for answer in result.answers)
    assert len(set(answered)) > 3, "live questions were answered while the batch ran"
