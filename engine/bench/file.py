"""Decides how a file of questions is measured: ours in the order of a plan, a plain server in the order of the file.

A plan has one document read, then all its questions asked; the next one is read when few of them are left to begin. In
waves it has several read, one after the other, before the questions on any of them are asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from engine.bench.base import Document, System, Timing
from engine.bench.documents import Writer
from engine.bench.results import File, Start, Stopwatch, hit_rate
from engine.bench.scenarios import STARTS, attempt, end, most_of_pool
from engine.bench.sizes import QUESTION_TOKENS, FileShape, Scale

# The one whose order is planned.
PLANNED = "readonce"

Question = tuple[Document, tuple[int, ...]]


async def file(system: System, writer: Writer, scale: Scale) -> AsyncIterator[File]:
    """Each file on fresh documents, asked about in turn, and once more when all of them are read. The clock runs from
    before the first read."""
    for shape in scale.files:
        documents = [writer.document(shape.document_tokens) for _ in range(shape.documents)]
        wave = scale.file_wave if system.name == PLANNED else None
        at_once = scale.file_plain_at_once if wave is None else scale.file_at_once
        for start in STARTS:
            rows = [(documents[row % shape.documents], writer.ids(QUESTION_TOKENS)) for row in range(shape.questions)]
            asked = _Asked(system, shape.output_tokens, at_once)
            watching = asyncio.create_task(most_of_pool(system))
            watch = Stopwatch()
            await (asked.in_file(rows) if wave is None else asked.in_plan(documents, rows, wave))
            wall_s, client_cpu_share = watch.stop()
            watching.cancel()
            yield _result(shape, start, asked, wave, wall_s, client_cpu_share, await watching)


def _result(
    shape: FileShape,
    start: Start,
    asked: _Asked,
    wave: int | None,
    wall_s: float,
    client_cpu_share: float,
    pool_used: float | None,
) -> File:
    answers = [timing for timing in asked.answers if timing is not None]
    whole = [timing for timing in answers if timing.output_tokens >= shape.output_tokens]
    num_prompt = sum(timing.prompt_tokens for timing in answers)
    return File(
        start=start,
        order="file" if wave is None else "planned",
        wave=wave,
        documents=shape.documents,
        document_tokens=shape.document_tokens,
        at_once=asked.at_once,
        questions=shape.questions,
        output_tokens=shape.output_tokens,
        questions_per_s=round(len(whole) / wall_s, 2),
        tokens_per_s=round(sum(timing.output_tokens for timing in answers) / wall_s, 1),
        mean_prompt_tokens=round(num_prompt / len(answers), 1) if answers else 0.0,
        hit_rate=hit_rate([*answers, *asked.reads]),
        pool_used=pool_used,
        success_rate=round(len(whole) / shape.questions, 4),
        wall_s=round(wall_s, 3),
        client_cpu_share=client_cpu_share,
    )


class _Asked:
    """The questions of one file.

    Attributes:
        answers: None where there is none.
        reads: Of documents, before their questions.
    """

    def __init__(self, system: System, num_output: int, at_once: int) -> None:
        self._system = system
        self._num_output = num_output
        self._slots = asyncio.Semaphore(at_once)
        self._begun = asyncio.Event()
        self._num_waiting = 0
        self.at_once = at_once
        self.answers: list[Timing | None] = []
        self.reads: list[Timing] = []

    async def in_plan(self, documents: Sequence[Document], rows: Sequence[Question], wave: int) -> None:
        tasks: list[asyncio.Task[None]] = []
        try:
            for first in range(0, len(documents), wave):
                read_together = documents[first : first + wave]
                while self._num_waiting >= self.at_once:
                    self._begun.clear()
                    await self._begun.wait()
                about = [[row for row in rows if row[0] is document] for document in read_together]
                for document, ((_, question_ids), *_) in zip(read_together, about, strict=True):
                    self.reads.append(await self._system.ask(document, question_ids[:1], 1))
                self._num_waiting += sum(map(len, about))
                tasks += [asyncio.create_task(self._ask(row)) for ones in about for row in ones]
            await asyncio.gather(*tasks)
        finally:
            await end(tasks)

    async def in_file(self, rows: Sequence[Question]) -> None:
        self._num_waiting = len(rows)
        tasks = [asyncio.create_task(self._ask(row)) for row in rows]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end(tasks)

    async def _ask(self, row: Question) -> None:
        async with self._slots:
            self._num_waiting -= 1
            self._begun.set()
            self.answers.append(await attempt(self._system, *row, self._num_output))
