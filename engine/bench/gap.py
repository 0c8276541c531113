"""Decides how the stall is measured that one cold document causes: in answers that run, and for a warm question."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from engine.base import EngineError
from engine.bench.base import Document, System
from engine.bench.documents import Writer
from engine.bench.results import Gap, Stopwatch, percentile, to_ms
from engine.bench.scenarios import end
from engine.bench.sizes import QUESTION_TOKENS, WARM_OUTPUT_TOKENS, Scale

# When the warm question comes: well into the cold document's reading, however long that takes.
_WARM_AFTER_S, _WARM_AFTER_SHARE = 1.0, 0.25
_BETWEEN_WARM_S = 0.25


async def gap(system: System, writer: Writer, scale: Scale) -> AsyncIterator[Gap]:
    """Answers run on warm documents; a cold one is read in; warm questions come meanwhile."""
    documents = [writer.document(scale.gap_tokens) for _ in range(scale.gap_answers)]
    for document in documents:
        await system.ask(document, writer.ids(QUESTION_TOKENS), WARM_OUTPUT_TOKENS)
    cold_question = writer.ids(QUESTION_TOKENS)
    alone, beside = (writer.document(scale.gap_cold_tokens) for _ in range(2))
    cold_alone_s = (await system.ask(alone, cold_question, WARM_OUTPUT_TOKENS)).first_s
    answers = _Answers(system, writer, scale.gap_output_tokens)
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(answers.stop)
        await answers.start(documents)
        watch = Stopwatch()
        began_s = loop.time()
        cold = asyncio.create_task(system.ask(beside, cold_question, WARM_OUTPUT_TOKENS))
        stack.push_async_callback(end, [cold])
        await asyncio.wait([cold], timeout=min(_WARM_AFTER_S, cold_alone_s * _WARM_AFTER_SHARE))
        warm_s: list[float] = []
        while not cold.done():
            warm = await system.ask(documents[0], writer.ids(QUESTION_TOKENS), WARM_OUTPUT_TOKENS)
            warm_s.append(warm.first_s)
            await asyncio.wait([cold], timeout=_BETWEEN_WARM_S)
        cold_s = cold.result().first_s
        _, client_cpu_share = watch.stop()
        await answers.one_more()
    gaps_s, num_tokens = answers.between(began_s, began_s + cold_s)
    if not gaps_s:
        raise EngineError(
            "nothing_measured",
            f"No answer ran while {scale.gap_cold_tokens:,} tokens were read in ({cold_s:.3f} s); read in more.",
        )
    known = [number for number in num_tokens if number is not None]
    yield Gap(
        answers=scale.gap_answers,
        cold_tokens=scale.gap_cold_tokens,
        gap_p50_ms=to_ms(percentile(gaps_s, 50)),
        gap_p99_ms=to_ms(percentile(gaps_s, 99)),
        gap_max_ms=to_ms(max(gaps_s)),
        num_gaps=len(gaps_s),
        warm_first_ms=to_ms(warm_s[0]) if warm_s else None,
        warm_p50_ms=to_ms(percentile(warm_s, 50)) if warm_s else None,
        warm_worst_ms=to_ms(max(warm_s)) if warm_s else None,
        warm_questions=len(warm_s),
        cold_s=round(cold_s, 3),
        cold_alone_s=round(cold_alone_s, 3),
        cold_ratio=round(cold_s / cold_alone_s, 2),
        tokens_per_event=round(sum(known) / len(known), 2) if known else None,
        client_cpu_share=client_cpu_share,
    )


@dataclass(frozen=True)
class _Arrival:
    """An event of an answer: when it came on the event loop's clock, and its tokens where the system tells them."""

    at_s: float
    num_tokens: int | None


class _Answers:
    """Answers that go on until they are stopped; where one ends, the next question on its document is asked."""

    def __init__(self, system: System, writer: Writer, num_output: int) -> None:
        self._system = system
        self._writer = writer
        self._num_output = num_output
        self._running: list[asyncio.Task[None]] = []
        self._arrived: list[asyncio.Event] = []
        self._answers: list[list[_Arrival]] = []

    async def start(self, documents: Sequence[Document]) -> None:
        """Returns when every answer has begun to come."""
        self._arrived = [asyncio.Event() for _ in documents]
        self._running = [
            asyncio.create_task(self._answer(document, arrived))
            for document, arrived in zip(documents, self._arrived, strict=True)
        ]
        await self._wait_for_all()

    async def one_more(self) -> None:
        """Returns when something more of every answer has come: until then the longest gap may still be open."""
        for arrived in self._arrived:
            arrived.clear()
        await self._wait_for_all()

    async def stop(self) -> None:
        await end(self._running)

    def between(self, since_s: float, until_s: float) -> tuple[list[float], list[int | None]]:
        """(seconds, tokens of the event that ended it) of all gaps that lie at least partly between two moments."""
        pairs = [
            (earlier, later)
            for arrivals in self._answers
            for earlier, later in itertools.pairwise(arrivals)
            if later.at_s > since_s and earlier.at_s < until_s
        ]
        return [later.at_s - earlier.at_s for earlier, later in pairs], [later.num_tokens for _, later in pairs]

    async def _wait_for_all(self) -> None:
        async def all_arrived() -> None:
            for arrived in self._arrived:
                await arrived.wait()

        waiting = asyncio.create_task(all_arrived())
        try:
            await asyncio.wait([waiting, *self._running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        for task in self._running:
            if task.done():  # they end by a failure only
                task.result()

    async def _answer(self, document: Document, arrived: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while True:
            arrivals: list[_Arrival] = []
            self._answers.append(arrivals)

            def note(num_tokens: int | None, arrivals: list[_Arrival] = arrivals) -> None:
                arrivals.append(_Arrival(loop.time(), num_tokens))
                arrived.set()

            await self._system.ask(document, self._writer.ids(QUESTION_TOKENS), self._num_output, note)
