"""Decides how a system is measured at rest and under a crowd: warm, burst, trace, batch. `gap` has the hard one.

A scenario gives its results one by one, each as soon as it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from engine.base import EngineError
from engine.bench.base import Document, System, Timing
from engine.bench.documents import Writer, zipf_draws
from engine.bench.results import (
    Batch,
    Burst,
    Start,
    Stopwatch,
    Trace,
    Warm,
    first_ms,
    first_p95_ms,
    hit_rate,
    to_ms,
    tokens_per_event,
)
from engine.bench.sizes import QUESTION_TOKENS, WARM_OUTPUT_TOKENS, Scale

# The same questions for every system.
_DRAWS_SEED = 8
_POOL_POLL_S = 0.1
STARTS: tuple[Start, ...] = ("cold", "warm")


async def ready(system: System, writer: Writer) -> None:
    """Has a system do once what the first request does only: connect, compile, fill its pools."""
    document = writer.document(500)
    for _ in range(2):
        await system.ask(document, writer.ids(QUESTION_TOKENS), WARM_OUTPUT_TOKENS)


async def warm(system: System, writer: Writer, scale: Scale) -> AsyncIterator[Warm]:
    """Each length: a fresh document's first question, then others on it."""
    for num_tokens in scale.warm_tokens:
        document = writer.document(num_tokens)
        cold, *later = [
            await system.ask(document, writer.ids(QUESTION_TOKENS), WARM_OUTPUT_TOKENS)
            for _ in range(1 + scale.warm_questions)
        ]
        yield Warm(num_tokens, to_ms(cold.first_s), first_ms(later), later[-1].prompt_tokens, later[-1].cached_tokens)


async def burst(system: System, writer: Writer, scale: Scale) -> AsyncIterator[Burst]:
    """Each size: a fresh document, read once, then all questions in the same moment."""
    for num_questions in scale.burst_questions:
        document = await _read(system, writer, scale.burst_tokens)
        questions = [writer.ids(QUESTION_TOKENS) for _ in range(num_questions)]
        watch = Stopwatch()
        timings = await asyncio.gather(
            *(system.ask(document, question, scale.burst_output_tokens) for question in questions)
        )
        wall_s, client_cpu_share = watch.stop()
        num_output = sum(timing.output_tokens for timing in timings)
        yield Burst(
            questions=num_questions,
            document_tokens=scale.burst_tokens,
            tokens_per_s=round(num_output / wall_s, 1),
            first_ms=first_ms(timings),
            first_p95_ms=first_p95_ms(timings),
            wall_s=round(wall_s, 3),
            output_tokens=num_output,
            tokens_per_event=tokens_per_event(timings),
            client_cpu_share=client_cpu_share,
        )


async def trace(system: System, writer: Writer, scale: Scale) -> AsyncIterator[Trace]:
    """Twice on the same documents: the first time nothing was read before, the second time everything."""
    documents = [writer.document(scale.trace_tokens) for _ in range(scale.trace_documents)]
    draws = zipf_draws(scale.trace_documents, scale.trace_questions, _DRAWS_SEED)
    for start in STARTS:
        questions = [(documents[draw], writer.ids(QUESTION_TOKENS)) for draw in draws]
        watch = Stopwatch()
        timings = await _so_many_at_a_time(system, questions, scale.trace_output_tokens, scale.trace_at_once)
        wall_s, client_cpu_share = watch.stop()
        yield Trace(
            start=start,
            documents=scale.trace_documents,
            document_tokens=scale.trace_tokens,
            at_once=scale.trace_at_once,
            questions=len(timings),
            questions_per_s=round(len(timings) / wall_s, 2),
            hit_rate=hit_rate(timings),
            first_ms=first_ms(timings),
            first_p95_ms=first_p95_ms(timings),
            wall_s=round(wall_s, 3),
            client_cpu_share=client_cpu_share,
        )
        # A document that no question was about is not read yet.
        for number in sorted(set(range(scale.trace_documents)) - set(draws)):
            await system.ask(documents[number], writer.ids(QUESTION_TOKENS), WARM_OUTPUT_TOKENS)


async def batch(system: System, writer: Writer, scale: Scale) -> AsyncIterator[Batch]:
    """Batches of growing size, each on a document of its own that was read before; a failed answer is counted."""
    for num_questions in scale.batch_sizes:
        document = await _read(system, writer, scale.batch_tokens)
        questions = [writer.ids(QUESTION_TOKENS) for _ in range(num_questions)]
        watching = asyncio.create_task(most_of_pool(system))
        watch = Stopwatch()
        answers = await asyncio.gather(
            *(attempt(system, document, question, scale.batch_output_tokens) for question in questions)
        )
        wall_s, client_cpu_share = watch.stop()
        watching.cancel()
        timings = [timing for timing in answers if timing is not None]
        whole = [timing for timing in timings if timing.output_tokens >= scale.batch_output_tokens]
        num_prompt = sum(timing.prompt_tokens for timing in timings)
        yield Batch(
            questions=num_questions,
            mean_prompt_tokens=round(num_prompt / len(timings), 1) if timings else 0.0,
            tokens_per_s=round(sum(timing.output_tokens for timing in timings) / wall_s, 1),
            pool_used=await watching,
            success_rate=round(len(whole) / num_questions, 4),
            hit_rate=hit_rate(timings),
            client_cpu_share=client_cpu_share,
        )


async def _read(system: System, writer: Writer, num_tokens: int) -> Document:
    """A fresh document that the system has read."""
    document = writer.document(num_tokens)
    await system.ask(document, writer.ids(QUESTION_TOKENS), WARM_OUTPUT_TOKENS)
    return document


async def _so_many_at_a_time(
    system: System, questions: Sequence[tuple[Document, tuple[int, ...]]], num_output: int, at_once: int
) -> list[Timing]:
    waiting = iter(questions)
    timings: list[Timing] = []

    async def work() -> None:
        for document, question in waiting:
            timings.append(await system.ask(document, question, num_output))

    async with contextlib.AsyncExitStack() as stack:
        workers = [asyncio.create_task(work()) for _ in range(at_once)]
        stack.push_async_callback(end, workers)
        await asyncio.gather(*workers)
    return timings


async def attempt(system: System, document: Document, question: tuple[int, ...], num_output: int) -> Timing | None:
    try:
        return await system.ask(document, question, num_output)
    except EngineError:
        return None


async def most_of_pool(system: System) -> float | None:
    """The largest share that was seen until cancelled."""
    most: float | None = None
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            used = await system.pool_used()
            most = used if most is None else max(most, used or 0.0)
            await asyncio.sleep(_POOL_POLL_S)
    return most


async def end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels what still runs and waits until it has stopped."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
