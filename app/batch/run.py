"""THE PATH OF A BATCH: many questions, each document read once. The command line calls it, and any program may.

questions -> choice (retrieval for all) -> plan (the order)
          -> measure (how fast the engine is now), cost (what it will cost, by what was learnt), or
          -> runner (link, ask) -> state (kept as they come) -> answers

assistant = Assistant.open(Settings.load())
result = await run(assistant, [BatchQuestion(0, "a", "What does the ferry cost?")])
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.batch.choice import Choices, Tell, choose
from app.batch.cost import Cost, count, late_words
from app.batch.deadline import on_time
from app.batch.link import Link
from app.batch.options import BatchOptions
from app.batch.plan import Group, in_order
from app.batch.pool import Pool, pool_of
from app.batch.progress import Progress, Tally
from app.batch.question import BatchAnswer, BatchQuestion
from app.batch.runner import Runner
from app.batch.state import BatchLog, Logged
from app.batch.stop import Stop
from app.batch.timing.learnt import keep_seen, load_seen
from app.batch.timing.lengths import kind_of, lengths_of
from app.batch.timing.rates import rates_of
from app.conversation import Turn
from app.problem import Problem
from engine.base import EngineError

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.engines import Report

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchResult:
    """What became of a batch.

    Attributes:
        answers: In the order of the rows; of a batch that was stopped, those that are there.
        progress: The counts at its end.
        num_restarts: How often the engine was found or started again.
        stopped: Why it ended before its end; None where every row has an answer or an error.
    """

    answers: tuple[BatchAnswer, ...]
    progress: Progress
    num_restarts: int = 0
    stopped: Problem | None = None


async def run(
    assistant: Assistant,
    questions: Sequence[BatchQuestion],
    options: BatchOptions | None = None,
    *,
    log: BatchLog | None = None,
    stop: Stop | None = None,
    told: Callable[[BatchAnswer | None, Progress], None] = lambda answer, progress: None,
    planned: Tell = lambda done, total: None,
    report: Report = lambda sentence: None,
) -> BatchResult:
    """Answers all questions; a row that fails says why, and keeps no other from its answer.

    Args:
        log: Where answers are kept as they come; what it holds of an earlier run is not asked again.
        stop: Ends it before its end.
        told: Gets every answer as it comes, and how far the batch is.
        planned: Gets how many questions have been searched for.

    Raises:
        Problem: `duplicate_ids`.
        EngineError: There is no engine, and none could be started.
    """
    options, stop = options or BatchOptions(), stop or Stop()
    done = {row: logged for row, logged in (log.logged if log else {}).items() if logged.answer.error is None}
    tally = Tally(len(questions))
    for logged in done.values():
        tally.know(logged.answer)
    answers = {row: logged.answer for row, logged in done.items()}
    waiting = [question for question in questions if question.row not in done]
    if not waiting:
        return BatchResult(_in_rows(answers), tally.at(0.0))
    link = Link(assistant, await assistant.reader(report), options, report)
    earlier = _conversations(questions, done)
    plan = await _plan(assistant, link, waiting, options, earlier, planned)
    if any(choice.due_s is not None for group in plan.groups for choice in group.choices):
        late = late_words(await _counted(assistant, link, plan, options))
        if late:
            report(late)
    due_s = {question.row: question.due_s for question in waiting}
    for planned_answer in plan.answers:
        asked_for_s = due_s[planned_answer.row]
        answer = on_time(planned_answer, options.due_s if asked_for_s is None else asked_for_s)
        if log is not None:
            await asyncio.to_thread(log.add, answer, None)
        tally.know(answer)
        answers[answer.row] = answer
        told(answer, tally.at(0.0))
    if (too_many := tally.too_many(options.max_failures)) is not None:
        stop.ask_for(too_many)
    answer_tokens = assistant.settings.answer_tokens
    runner = Runner(
        link,
        options,
        pool=plan.pool,
        at_once=plan.at_once,
        wave=options.reads_in_wave(assistant.settings),
        answer_tokens=answer_tokens,
        earlier=earlier,
        log=log,
        tally=tally,
        stop=stop,
        told=told,
    )
    try:
        await runner.run(plan.groups)
    finally:
        if options.apart:
            await _let_go(link, plan.groups, options.apart)
    progress = tally.at(runner.elapsed_s)
    await asyncio.to_thread(keep_seen, assistant.settings, runner.clock.seen)
    answers |= {answer.row: answer for answer in runner.answers}
    return BatchResult(_in_rows(answers), progress, link.num_restarts, stop.problem)


async def cost(
    assistant: Assistant,
    questions: Sequence[BatchQuestion],
    options: BatchOptions | None = None,
    *,
    log: BatchLog | None = None,
    planned: Tell = lambda done, total: None,
    report: Report = lambda sentence: None,
) -> Cost:
    """What `run` would have the engine compute; asks no question of the batch.

    Raises:
        Problem, EngineError: As `run`.
    """
    options = options or BatchOptions()
    done = {row: logged for row, logged in (log.logged if log else {}).items() if logged.answer.error is None}
    waiting = [question for question in questions if question.row not in done]
    link = Link(assistant, await assistant.reader(report), options, report)
    plan = await _plan(assistant, link, waiting, options, _conversations(questions, done), planned)
    counted = await _counted(assistant, link, plan, options)
    failed = [f"“{answer.id}”: {answer.error.message}" for answer in plan.answers if answer.error is not None]
    return replace(counted, failed=len(failed), first_failed=next(iter(failed), None))


@dataclass(frozen=True)
class _Planned:
    groups: tuple[Group, ...]
    answers: tuple[BatchAnswer, ...]
    pool: Pool
    resident: Mapping[str, int]
    at_once: int


async def _plan(
    assistant: Assistant,
    link: Link,
    questions: Sequence[BatchQuestion],
    options: BatchOptions,
    earlier: Mapping[str, tuple[Turn, ...]],
    planned: Tell,
) -> _Planned:
    chosen: Choices = await choose(assistant, link.reader, questions, options, earlier, planned)
    pool = await asyncio.to_thread(pool_of, assistant, link.reader)
    resident = await asyncio.to_thread(pool.resident) or {}
    largest = max((choice.num_tokens for choice in chosen.choices), default=0)
    at_once = pool.room_for(options.answers_at_once(assistant.settings), largest, assistant.settings.answer_tokens)
    return _Planned(in_order(chosen.choices, resident), chosen.answers, pool, resident, at_once)


async def _counted(assistant: Assistant, link: Link, plan: _Planned, options: BatchOptions) -> Cost:
    seen, now_s = await asyncio.to_thread(load_seen, assistant.settings), time.time()
    counted = partial(
        count,
        link.reader,
        plan.groups,
        apart=options.apart,
        pool=plan.pool,
        resident=plan.resident,
        at_once=plan.at_once,
        wave=options.reads_in_wave(assistant.settings),
        rates=rates_of(seen, now_s, plan.at_once),
        lengths=lengths_of(seen.answers, kind_of(options), assistant.settings.answer_tokens),
        now_s=now_s,
    )
    return await asyncio.to_thread(counted)


def _conversations(questions: Sequence[BatchQuestion], done: Mapping[int, Logged]) -> dict[str, tuple[Turn, ...]]:
    """What was said in an earlier run, up to each question that it answered."""
    answered = {question.id: (question, done[question.row]) for question in questions if question.row in done}
    made: dict[str, tuple[Turn, ...]] = {}
    for name in answered:
        turns: list[Turn] = []
        at: str | None = name
        while at is not None and at in answered:
            question, logged = answered[at]
            if logged.turn is not None:
                turns.insert(0, logged.turn)
            at = question.follow_up_of
        made[name] = tuple(turns)
    return made


async def _let_go(link: Link, groups: Sequence[Group], apart: str) -> None:
    """Nobody else asks with these instructions."""
    for group in groups:
        choice = group.choices[0]
        try:
            read = await asyncio.to_thread(link.reader.read, choice.plan, choice.kb, apart)
            await link.reader.engine.free_prefix(read.prefix)
        except EngineError as error:
            _log.warning("The engine was not told to free what the batch read: %s", error.message)
            return


def _in_rows(answers: Mapping[int, BatchAnswer]) -> tuple[BatchAnswer, ...]:
    return tuple(answers[row] for row in sorted(answers))


def open_log(out: Path, questions: Sequence[BatchQuestion], options: BatchOptions, *, resume: bool = False) -> BatchLog:
    """The log of a batch whose answers go to `out`. Blocking; see `BatchLog.open`."""
    from app.batch.state import log_path

    return BatchLog.open(log_path(out), questions, options, resume)
