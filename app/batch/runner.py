"""Decides when each question of a planned batch is asked: its prefix is read once, then its questions share it.

    room for the next prefix -> read it, while the last answers run -> its questions, so many at once

Never more prefixes are in use than the pool holds beside the answers, and the next one is read only when few questions
wait: what they leave behind would push it out again before its turn. In waves several are read before the questions on
any of them begin, as many as there is room for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from app.batch.ask import Asked, ask
from app.batch.choice import Choice, failed
from app.batch.deadline import on_time
from app.batch.link import EngineGoneError, Link
from app.batch.plan import Group
from app.batch.pool import QUESTION_TOKENS, Pool
from app.batch.progress import Progress, Tally
from app.batch.question import BatchAnswer
from app.batch.reads import Reads
from app.batch.schema import Schema
from app.batch.stop import Stop
from app.batch.timing.clock import AnswerWatch, Clock
from app.batch.timing.lengths import kind_of
from app.problem import Problem, tell

if TYPE_CHECKING:
    from app.batch.options import BatchOptions
    from app.batch.state import BatchLog
    from app.conversation import Turn
    from app.reader import Reader


class Runner:
    """One run over the groups of a batch.

    Args:
        earlier: The conversations of questions that were answered in an earlier run, by id.
        log: Keeps each answer when it comes; None: nothing is kept.
        told: Gets every answer, and how far the batch is.
    """

    def __init__(
        self,
        link: Link,
        options: BatchOptions,
        *,
        pool: Pool,
        at_once: int,
        wave: int,
        answer_tokens: int,
        earlier: Mapping[str, tuple[Turn, ...]],
        log: BatchLog | None,
        tally: Tally,
        stop: Stop,
        told: Callable[[BatchAnswer | None, Progress], None],
    ) -> None:
        self._link = link
        self._options = options
        self._kind = kind_of(options)
        self._schema = Schema(options.schema) if options.schema else None
        self._pool = pool
        self._at_once = at_once
        self._wave = wave
        self._answer_tokens = answer_tokens
        self._conversations = dict(earlier)
        self._log = log
        self._logging = asyncio.Lock()
        self._tally = tally
        self._stop = stop
        self._told = told
        self._slots = asyncio.Semaphore(at_once)
        self._now = asyncio.get_running_loop().time
        self.clock = Clock(self._now)
        self._reads = Reads(link, pool, options.apart, tally, self.clock)
        self._changed = asyncio.Event()
        self._num_waiting = 0
        self._in_use: dict[Group, int] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._failed: set[str] = set()
        self._began_s: float | None = None
        self.answers: list[BatchAnswer] = []
        stop.wake, stop.is_heard = self._changed.set, True

    @property
    def elapsed_s(self) -> float:
        """Since the first read was begun."""
        return 0.0 if self._began_s is None else self._now() - self._began_s

    async def run(self, groups: Sequence[Group]) -> None:
        """Asks all; returns when the last running answer has ended, also where the batch was stopped."""
        self._began_s = self._now()
        self._ended = {choice.question.id: asyncio.Event() for group in groups for choice in group.choices}
        tasks: list[asyncio.Task[None]] = []
        wave: list[tuple[Group, Problem | None]] = []
        num_read = 0

        def begin() -> None:
            nonlocal num_read
            for group, error in wave:
                self._num_waiting += len(group.choices)
                tasks.extend(asyncio.create_task(self._settle(choice, group, error)) for choice in group.choices)
            wave.clear()
            num_read = 0

        try:
            for group in groups:
                if not self._has_room(group):
                    begin()
                await self._wait_for_room(group)
                if self._stop.is_asked_for():
                    break
                self._in_use[group] = len(group.choices)
                read = await self._read(group)
                if self._stop.is_asked_for():
                    break
                wave.append((group, read if isinstance(read, Problem) else None))
                num_read += read is True
                # What was there already has nothing to wait for.
                if num_read >= self._wave or not num_read:
                    begin()
            if not self._stop.is_asked_for():
                begin()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_room(self, group: Group) -> None:
        while not self._stop.is_asked_for() and not self._has_room(group):
            self._changed.clear()
            await self._changed.wait()

    def _has_room(self, group: Group) -> bool:
        if not self._in_use:
            return True
        if self._num_waiting >= self._at_once:
            return False
        prefixes = {one.prefix: one.num_tokens for one in (*self._in_use, group)}
        # Twice: those that run, and the blocks that those before them left behind.
        answers = 2 * self._at_once * (QUESTION_TOKENS + self._answer_tokens)
        return sum(prefixes.values()) + answers <= self._pool.num_tokens

    async def _read(self, group: Group) -> bool | Problem:
        try:
            read = await self._reads.read(group)
        except EngineGoneError as error:
            self._give_up(error)
            return False
        if read is True:
            self._told(None, self._tally.at(self.elapsed_s))
        return read

    async def _settle(self, choice: Choice, group: Group, error: Problem | None) -> None:
        """Asks one question once its turn has come, and keeps what became of it."""
        name, before = choice.question.id, choice.question.follow_up_of
        try:
            if choice.waits_for is not None and choice.waits_for in self._ended:
                await self._ended[choice.waits_for].wait()
            async with self._slots:
                self._num_waiting -= 1
                self._changed.set()
                if self._stop.is_asked_for():
                    self._failed.add(name)
                    return
                if before in self._failed:
                    error = Problem("earlier_failed", f"The question {before!r} that it follows failed.")
                with self.clock.running() as watch:
                    answered = await self._answer(choice, error, watch)
                    await self._keep(choice, answered)
                if isinstance(answered, Asked):
                    self._learn(choice, answered.answer, watch)
        except EngineGoneError as gone:
            self._failed.add(name)
            self._give_up(gone)
        except OSError as error:  # an answer that can't be kept: no more are asked for
            problem = tell(error)
            if problem is None:
                raise
            self._stop.ask_for(problem)
        finally:
            self._ended[name].set()
            self._in_use[group] -= 1
            if not self._in_use[group]:
                del self._in_use[group]
            self._changed.set()

    async def _answer(self, choice: Choice, error: Problem | None, watch: AnswerWatch) -> Asked | BatchAnswer:
        if error is not None:
            return failed(choice.question, error.code, error.message)
        began_s = time.perf_counter()
        earlier = self._conversations.get(choice.question.follow_up_of or "", ())

        async def once(reader: Reader) -> Asked:
            async with asyncio.timeout(self._options.timeout_s):
                return await ask(
                    reader, choice, self._options.apart, earlier, self._schema, self._answer_tokens, watch.came
                )

        try:
            return await self._link.do(once)
        except EngineGoneError:
            raise
        except TimeoutError:
            problem: Problem | None = Problem(
                "timed_out",
                f"There was no answer within {self._options.timeout_s:g} s; allow more (--timeout), or fewer answers at"
                " once (--at-once).",
            )
        except Exception as caught:
            problem = tell(caught)
            if problem is None:
                raise
        assert problem is not None
        return failed(choice.question, problem.code, problem.message, round(time.perf_counter() - began_s, 3))

    async def _keep(self, choice: Choice, asked: Asked | BatchAnswer) -> None:
        question = choice.question
        before = self._conversations.get(question.follow_up_of or "", ())
        if isinstance(asked, Asked):
            answer, turn = on_time(asked.answer, choice.due_s), asked.turn
            self._conversations[question.id] = (*before, turn)
        else:
            answer, turn = asked, None
            self._failed.add(question.id)
        if self._log is not None:
            async with self._logging:
                await asyncio.to_thread(self._log.add, answer, turn)
        self.answers.append(answer)
        self._tally.take(answer)
        self._tally.num_retries = self._link.num_retries
        self._told(answer, self._tally.at(self.elapsed_s))
        if (too_many := self._tally.too_many(self._options.max_failures)) is not None:
            self._stop.ask_for(too_many)

    def _learn(self, choice: Choice, answer: BatchAnswer, watch: AnswerWatch) -> None:
        """What the answer took; not of one whose document had to be read again for it."""
        prompt_tokens = answer.prompt_tokens or 0
        held = choice.num_tokens if answer.cached_tokens is None else answer.cached_tokens
        if 2 * held >= choice.num_tokens:
            self.clock.has_answered(
                watch,
                tokens=answer.output_tokens or 0,
                is_cut=answer.is_cut,
                question_tokens=max(prompt_tokens - held, 1),
                kind=self._kind,
            )

    def _give_up(self, error: EngineGoneError) -> None:
        self._stop.ask_for(Problem(error.cause.code, error.cause.message))
