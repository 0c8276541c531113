"""Decides what an engine without a model says: scripted or invented words, over vLLM's real block rules.

It keeps the contract of `engine.base.Engine` (streams, the receipt last, abort on close), so that everything above the
engine is tested without one. Nothing here polls: a stream sleeps until its next token, or until blocks are free.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from engine.base import Delta, EngineError, Features, Finish, FinishReason, Handle, Prefix, Prompt, Receipt, Sampling
from engine.blocks import BlockCache, NoRoomError, Run
from engine.fake_handles import FakeHandles
from engine.fake_likelihood import log_probabilities
from engine.fake_words import Answers, Script, Words
from engine.ledger import Ledger
from engine.tokenizer import Tokenizer


@dataclass(frozen=True)
class Delays:
    """How slow the fake is: seconds for each computed prompt token, and for each token of an answer."""

    prompt_token_s: float = 0.0
    answer_token_s: float = 0.0


@dataclass
class Call:
    """What came in and how it ended; `reason` is None while it runs.

    Attributes:
        num_tokens: Of the prompt, as far as it was to be computed or found: what only reads leaves out the prefix's
            last block where it is not whole.
    """

    prompt: Prompt
    sampling: Sampling
    num_tokens: int = 0
    cached_tokens: int | None = None
    output_ids: list[int] = field(default_factory=list)
    reason: FinishReason | None = None


class FakeEngine:
    """An engine with invented words and real cache rules.

    Args:
        tokenizer: Gives scripted words their ids; without it the ids are invented too.
        answers: A function of the prompt, or texts in order (the last one is not repeated: then words are invented).
        block_size, num_blocks, max_num_batched_tokens: As vLLM's flags of these names.
        instance: The engine's life; give another one to play a restart.
        features: What it says that it can't do.
        clock: Seconds; what TTLs are counted by.

    Attributes:
        calls: Every request in order of arrival, `warm`, `cache_prefix` and `log_probabilities` included.
        cache: The block pool, for asserts.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None = None,
        answers: Answers | None = None,
        *,
        model: str = "fake",
        max_model_len: int = 8192,
        block_size: int = 32,
        num_blocks: int = 2048,
        max_num_batched_tokens: int = 2048,
        delays: Delays | None = None,
        ledger: Ledger | None = None,
        instance: str = "fake-1",
        features: Features | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if (num_blocks - 1) * block_size < max_model_len:
            raise ValueError(f"{num_blocks} blocks of {block_size} tokens do not hold {max_model_len} tokens")
        self.calls: list[Call] = []
        self.cache = BlockCache(num_blocks, block_size)
        self._named = FakeHandles(self.cache, max_model_len, clock)
        self._features = features or Features(handles=True)
        self._reading: set[asyncio.Task[None]] = set()
        self._words = Words(tokenizer, answers)
        self._model = model
        self._max_model_len = max_model_len
        self._chunk = max_num_batched_tokens
        self._delays = delays or Delays()
        self._ledger = ledger or Ledger()
        self._instance = instance
        self._running: list[Run] = []
        self._freed = asyncio.Condition()

    @property
    def model(self) -> str:
        return self._model

    @property
    def max_model_len(self) -> int:
        return self._max_model_len

    @property
    def features(self) -> Features:
        return self._features

    @property
    def handles(self) -> tuple[Handle, ...]:
        """The prefixes known by handle, the oldest first."""
        return self._named.all()

    @property
    def num_running(self) -> int:
        return sum(call.reason is None for call in self.calls)

    def enqueue(self, *answers: str) -> None:
        """Adds texts for the next questions."""
        self._words.enqueue(answers)

    async def log_probabilities(self, prompt: Prompt) -> tuple[float, ...]:
        async for _ in self._stream(prompt, Sampling(max_tokens=1), self._words.end, reads_cache=False):
            pass
        return log_probabilities(prompt.token_ids, prompt.prefix.num_tokens)

    async def warm(self, prefix: Prefix) -> Receipt:
        receipt: Receipt | None = None
        prompt = Prompt(prefix, prefix.token_ids[:1])
        async for event in self._stream(prompt, Sampling(max_tokens=1), self._words.end):
            if isinstance(event, Finish):
                receipt = event.receipt
        assert receipt is not None
        return receipt

    def generate(self, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
        return self._stream(prompt, sampling, None)

    async def cache_prefix(
        self,
        prefix: Prefix,
        *,
        ttl_s: float | None = None,
        pin: bool = False,
        session: str | None = None,
        wait: bool = True,
    ) -> Handle:
        self._named.keep(prefix, ttl_s, pin, session)
        if wait:
            await self._read(prefix, pin)
        else:
            task = asyncio.create_task(self._read(prefix, pin))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        return self._named.handle(prefix)

    async def free_prefix(self, prefix: Prefix) -> None:
        self._named.free(prefix)
        self._ledger.forget(lambda handle, name: handle == prefix.id)
        await self._tell_freed()

    async def release_session(self, session: str) -> None:
        self._named.release(session)
        await self._tell_freed()

    async def close(self) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        self._ledger.close()

    async def _read(self, prefix: Prefix, pin: bool) -> None:
        # What is left of the last block can't be held, and is computed with each question.
        whole = prefix.num_tokens // self.cache.block_size * self.cache.block_size
        sent = (*prefix.token_ids[:whole], prefix.token_ids[0])
        prompt = Prompt(prefix, prefix.token_ids[:1])
        async for _ in self._stream(prompt, Sampling(max_tokens=1), self._words.end, sent):
            pass
        async with self._freed:
            while pin:
                try:
                    self._named.hold(prefix)
                    return
                except NoRoomError:
                    await self._freed.wait()

    async def _stream(
        self,
        prompt: Prompt,
        sampling: Sampling,
        script: Script | None,
        sent: Sequence[int] | None = None,
        *,
        reads_cache: bool = True,
    ) -> AsyncGenerator[Delta | Finish, None]:
        sent = prompt.token_ids if sent is None else sent
        if prompt.num_tokens >= self._max_model_len:
            raise EngineError(
                "prompt_too_long",
                f"The prompt has {prompt.num_tokens} tokens and the engine reads at most {self._max_model_len - 1}.",
            )
        script = script if script is not None else self._words.script(prompt)
        limit = min(sampling.max_tokens, self._max_model_len - prompt.num_tokens)
        call = Call(prompt, sampling, len(sent))
        self.calls.append(call)
        self._named.touch(prompt.prefix)
        began_s, started = time.time(), time.perf_counter()
        first_token_ms: float | None = None
        run: Run | None = None
        try:
            run = await self._admit(prompt.prefix, sent, reads_cache)
            call.cached_tokens = run.num_cached
            await self._prefill(run, len(sent))
            for text, token in script[:limit]:
                if call.output_ids:
                    run.token_ids.append(call.output_ids[-1])
                    await self._compute(run)
                    await asyncio.sleep(self._delays.answer_token_s)
                if first_token_ms is None:
                    first_token_ms = _ms_since(started)
                call.output_ids.append(token)
                yield Delta(text, (token,))
            call.reason = "stop" if len(script) <= limit else "length"
        finally:
            # A closed or cancelled stream comes here without a reason.
            ended = call.reason is not None
            call.reason = call.reason or "abort"
            if run is not None:
                self._free(run)
            verdict = self._ledger.settle(
                prompt.prefix,
                instance=self._instance,
                cached_tokens=call.cached_tokens if ended else None,
                first_token_ms=first_token_ms,
                began_s=began_s,
                block_size=self.cache.block_size,
            )
            await self._tell_freed()
        receipt = Receipt(
            prompt_tokens=len(sent),
            cached_tokens=call.cached_tokens,
            output_tokens=len(call.output_ids),
            first_token_ms=first_token_ms,
            total_ms=_ms_since(started),
            prefix=prompt.prefix.id,
            cold_because=verdict.cold_because,
            cold_first_token_ms=verdict.cold_first_token_ms,
        )
        yield Finish(receipt, tuple(call.output_ids), call.reason)

    async def _admit(self, prefix: Prefix, sent: Sequence[int], reads_cache: bool) -> Run:
        async with self._freed:
            while True:
                try:
                    run = self.cache.begin(sent, self._named.salt_of(prefix), reads_cache=reads_cache)
                    self._running.append(run)
                    return run
                except NoRoomError:
                    await self._freed.wait()

    async def _prefill(self, run: Run, num_tokens: int) -> None:
        while run.num_computed < num_tokens:
            before = run.num_computed
            await self._compute(run, self._chunk)
            await asyncio.sleep((run.num_computed - before) * self._delays.prompt_token_s)

    async def _compute(self, run: Run, num_tokens: int | None = None) -> None:
        """Computes the next tokens of `run`; where the pool is used up, the run admitted last has to give way."""
        async with self._freed:
            while True:
                try:
                    if run not in self._running:
                        self.cache.resume(run)
                        self._running.append(run)
                    self.cache.compute(run, num_tokens)
                    return
                except NoRoomError:
                    if self._running and run in self._running:
                        self._free(self._running[-1])
                    else:
                        await self._freed.wait()

    def _free(self, run: Run) -> None:
        if run in self._running:
            self._running.remove(run)
            self.cache.free(run)

    async def _tell_freed(self) -> None:
        async with self._freed:
            self._freed.notify_all()


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
