"""Decides when each question of a planned batch is asked: its prefix is read once, then its questions share it.

    room for the next prefix -> read it, while the last answers run -> its questions, so many at once

Never more prefixes are in use than the pool holds beside the answers, and the next one is read only when few questions
wait: what they leave behind would push it out again before its turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from app.batch.ask import Asked, ask
from app.batch.blocks import Blocks, reading
from app.batch.choice import Choice, failed
from app.batch.link import EngineGoneError, Link
from app.batch.plan import Group
from app.batch.pool import QUESTION_TOKENS, Pool
from app.batch.progress import Progress, Tally
from app.batch.question import BatchAnswer
from app.batch.schema import Schema
from app.batch.stop import Stop
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
        answer_tokens: int,
        earlier: Mapping[str, tuple[Turn, ...]],
        log: BatchLog | None,
        tally: Tally,
        stop: Stop,
        told: Callable[[BatchAnswer | None, Progress], None],
    ) -> None:
        self._link = link
        self._options = options
        self._schema = Schema(options.schema) if options.schema else None
        self._pool = pool
        self._at_once = at_once
        self._answer_tokens = answer_tokens
        self._conversations = dict(earlier)
        self._log = log
        self._logging = asyncio.Lock()
        self._tally = tally
        self._stop = stop
        self._told = told
        self._slots = asyncio.Semaphore(at_once)
        self._blocks = Blocks(pool.block_size)
        self._changed = asyncio.Event()
        self._num_waiting = self._num_running = 0
        self._in_use: dict[Group, int] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._failed: set[str] = set()
        self._began_s: float | None = None
        self.answers: list[BatchAnswer] = []
        self._alone_tokens, self._alone_s = 0, 0.0
        stop.wake, stop.is_heard = self._changed.set, True

    @property
    def elapsed_s(self) -> float:
        """Since the first read was begun."""
        return 0.0 if self._began_s is None else time.perf_counter() - self._began_s

    @property
    def read_tokens_per_s(self) -> float:
        """Of reads that no answer ran beside; 0 where there was none."""
        return self._alone_tokens / self._alone_s if self._alone_s else 0.0

    async def run(self, groups: Sequence[Group]) -> None:
        """Asks all; returns when the last running answer has ended, also where the batch was stopped."""
        self._began_s = time.perf_counter()
        self._ended = {choice.question.id: asyncio.Event() for group in groups for choice in group.choices}
        tasks: list[asyncio.Task[None]] = []
        try:
            for group in groups:
                await self._wait_for_room(group)
                if self._stop.is_asked_for():
                    break
                error = await self._read(group)
                if self._stop.is_asked_for():
                    break
                self._in_use[group] = len(group.choices)
                self._num_waiting += len(group.choices)
                tasks += [asyncio.create_task(self._settle(choice, group, error)) for choice in group.choices]
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

    async def _read(self, group: Group) -> Problem | None:
        """Has the group's prefix read, once for all; what went wrong is told of each of its questions."""
        resident = await asyncio.to_thread(self._pool.resident)
        held = (resident or {}).get(group.prefix, 0)
        is_alone, began_s = self._num_running == 0, time.perf_counter()
        try:
            # What it shares with those before it, the instructions at least, is not read again.
            fresh = await asyncio.to_thread(self._not_known, group)
            if self._pool.is_warm(group.num_tokens, held):
                return None
            await self._link.do(lambda reader: _read(reader, group.choices[0], self._options.apart))
        except EngineGoneError as error:
            self._give_up(error)
            return None
        except Exception as error:
            problem = tell(error)
            if problem is None:
                raise
            return problem
        self._tally.num_retries = self._link.num_retries
        if resident is None and group.is_again:
            return None  # it is there still, as far as can be told
        missing = self._pool.whole(group.num_tokens) - held + 1
        num_read = missing if group.is_again else min(missing, fresh)
        self._tally.num_reads += 1
        self._tally.read_tokens += num_read
        if is_alone and self._num_running == 0:
            self._alone_tokens += num_read
            self._alone_s += time.perf_counter() - began_s
        self._told(None, self._tally.at(self.elapsed_s))
        return None

    def _not_known(self, group: Group) -> int:
        choice = group.choices[0]
        prefix = self._link.reader.read(choice.plan, choice.kb, self._options.apart).prefix
        return self._blocks.computed(prefix.namespace, reading(prefix.token_ids, self._pool.block_size))

    async def _settle(self, choice: Choice, group: Group, error: Problem | None) -> None:
        """Asks one question once its turn has come, and keeps what became of it."""
        name, before = choice.question.id, choice.question.follow_up_of
        try:
            if choice.waits_for is not None and choice.waits_for in self._ended:
                await self._ended[choice.waits_for].wait()
            async with self._slots:
                self._num_waiting -= 1
                self._num_running += 1
                self._changed.set()
                try:
                    if self._stop.is_asked_for():
                        self._failed.add(name)
                        return
                    if before in self._failed:
                        error = Problem("earlier_failed", f"The question {before!r} that it follows failed.")
                    await self._keep(choice, await self._answer(choice, error))
                finally:
                    self._num_running -= 1
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

    async def _answer(self, choice: Choice, error: Problem | None) -> Asked | BatchAnswer:
        if error is not None:
            return failed(choice.question, error.code, error.message)
        began_s = time.perf_counter()
        earlier = self._conversations.get(choice.question.follow_up_of or "", ())

        async def once(reader: Reader) -> Asked:
            async with asyncio.timeout(self._options.timeout_s):
                return await ask(reader, choice, self._options.apart, earlier, self._schema, self._answer_tokens)

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
            answer, turn = asked.answer, asked.turn
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
        most = self._options.max_failures
        if most is not None and self._tally.num_failed > most:
            self._stop.ask_for(
                Problem("too_many_failures", f"{self._tally.num_failed} rows failed and {most} may (--max-failures).")
            )

    def _give_up(self, error: EngineGoneError) -> None:
        self._stop.ask_for(Problem(error.cause.code, error.cause.message))


async def _read(reader: Reader, choice: Choice, apart: str) -> None:
    read = await asyncio.to_thread(reader.read, choice.plan, choice.kb, apart)
    await reader.engine.cache_prefix(read.prefix)
