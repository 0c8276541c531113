"""Decides the way of a question: its prefix, the door, the engine, words if asked for, and a receipt at the end."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from engine.base import EngineError, FinishReason, Sampling
from engine.bridge import Output, Times
from engine.detokenize import Detokenizer
from engine.metrics import FirstToken
from engine.parts import Parts, Place, WaitedFor
from engine.registered import Registered
from engine.room import ANSWER_TOKENS
from engine.traces import ending


@dataclass(frozen=True)
class Question:
    """What is asked of a prefix.

    Attributes:
        token_ids: Everything after the prefix, one id or more.
        text: Whether words are wanted beside the ids; stop strings in `sampling` are looked for in any case.
        trace_headers: Of whoever asks: its span is the one above ours.
    """

    handle: str
    namespace: str
    token_ids: Sequence[int]
    sampling: Sampling
    text: bool = False
    trace_headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Receipt:
    """What a question cost in this server. Times are milliseconds since its arrival here.

    Attributes:
        resident_tokens: Of the prefix, what the cache held when the question came; None where that is not known.
        cached_tokens: Of the prompt, what the engine took from its cache; a read that the question waited for is in it.
        predicted_cached_tokens: What we expected there; None where that is not known.
        queue_ms: In the engine core's queue; None where it does not tell.
        first_token_ms: None where no token came.
        prefix: The handle.
        waited_for: At our door: for the prefix to be read, for room in the pool, or for nothing.
    """

    prompt_tokens: int
    resident_tokens: int | None
    cached_tokens: int | None
    predicted_cached_tokens: int | None
    output_tokens: int
    queue_ms: float | None
    first_token_ms: float | None
    total_ms: float
    prefix: str
    waited_for: WaitedFor


@dataclass(frozen=True)
class Piece:
    """Some ids, and the words that they decided; empty words where none were asked for."""

    token_ids: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class End:
    """The last event of an answer."""

    reason: FinishReason
    receipt: Receipt


class Questions:
    """All questions of one server.

    Attributes:
        num_live: Questions that have not ended.
        queries_tokens, hits_tokens: Prompt tokens of those that began to answer, and of these the reused ones: what was
            read for the very question counts as missed.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._read: WeakSet[Registered] = WeakSet()
        self.num_live = self.queries_tokens = self.hits_tokens = 0

    def was_read(self, registered: Registered) -> bool:
        """Whether a question got a first token on it, so that it was in the cache then."""
        return registered in self._read

    async def ask(self, question: Question) -> AsyncGenerator[Piece | End, None]:
        """The answer as it comes, `End` last; closing it aborts the question in the engine.

        Raises:
            EngineError: `unknown_prefix`, `does_not_fit`, `prompt_too_long`, `bad_request`, `no_tokenizer`,
                `engine_failed`.
        """
        arrived = time.perf_counter()
        sampling = question.sampling
        words = None
        if question.text or sampling.stop:
            words = Detokenizer(self._parts.vocabulary(), sampling.stop)
        self._refuse_foreign_ids(question.token_ids)
        self.num_live += 1
        try:
            span = self._parts.traces.start("generate", question.trace_headers, prefix=question.handle)
            with ending(span), self._parts.registry.use(question.handle, question.namespace) as registered:
                self._refuse_unfitting(registered, question)
                resident = self._parts.residency.resident_tokens(registered)
                request_id = f"readonce-{uuid.uuid4().hex}"
                waiting = self._parts.traces.start("admission", span.headers)
                num_answer_tokens = min(sampling.max_tokens, ANSWER_TOKENS)
                async with self._parts.door.enter(
                    registered, len(question.token_ids), request_id, num_answer_tokens
                ) as place:
                    waiting.note(waited_for=place.waited_for)
                    waiting.end()
                    run = _Run(self._parts, registered, question, place, resident, arrived, span.headers)
                    try:
                        async with aclosing(run.answer(words, request_id)) as events:
                            async for event in events:
                                yield event
                    finally:
                        self._count(run, registered)
                        span.note(prompt_tokens=run.prompt_tokens, cached_tokens=run.cached_tokens)
        finally:
            self.num_live -= 1

    def _count(self, run: _Run, registered: Registered) -> None:
        if run.first_token_s is not None:
            self._read.add(registered)
        if run.reused_tokens is not None:
            self.queries_tokens += run.prompt_tokens
            self.hits_tokens += run.reused_tokens

    def _refuse_foreign_ids(self, token_ids: Sequence[int]) -> None:
        size = self._parts.registry.pool.vocabulary
        if not token_ids or min(token_ids) < 0 or (size is not None and max(token_ids) >= size):
            raise EngineError(
                "bad_request", f"A question needs one token id or more, each from 0 to {(size or 2**31) - 1:,}."
            )

    def _refuse_unfitting(self, registered: Registered, question: Question) -> None:
        num_tokens = registered.num_tokens + len(question.token_ids)
        longest = self._parts.bridge.max_model_len
        if num_tokens + 1 > longest:
            raise EngineError(
                "prompt_too_long",
                f"Prefix and question have {num_tokens:,} tokens and the engine takes at most {longest - 1:,}; ask "
                "about fewer pages, begin a new conversation, or start the engine with a larger max_model_len.",
            )


class _Run:
    """One question in the engine."""

    def __init__(
        self,
        parts: Parts,
        registered: Registered,
        question: Question,
        place: Place,
        resident_tokens: int | None,
        arrived: float,
        trace_headers: Mapping[str, str],
    ) -> None:
        self._parts = parts
        self._registered = registered
        self._question = question
        self._place = place
        self._resident_tokens = resident_tokens
        self._arrived = arrived
        self._traced: dict[str, Mapping[str, str]] = {"trace_headers": trace_headers} if trace_headers else {}
        self._admitted_s = time.perf_counter() - arrived
        self._token_ids: list[int] = []
        self._times: Times | None = None
        self.prompt_tokens = registered.num_tokens + len(question.token_ids)
        self.cached_tokens: int | None = None
        self.first_token_s: float | None = None

    @property
    def reused_tokens(self) -> int | None:
        """Prompt tokens that were in the cache without this question; None where the engine did not report."""
        if self.cached_tokens is None or self._place.waited_for != "read":
            return self.cached_tokens
        return min(self._resident_tokens or 0, self.cached_tokens)

    async def answer(self, words: Detokenizer | None, request_id: str) -> AsyncGenerator[Piece | End, None]:
        question, residency = self._question, self._parts.residency
        if self._place.waited_for == "read":
            await residency.read_is_in(self._registered)
        await residency.caught_up()
        prediction = residency.predict(self._registered, question.token_ids)
        reason: FinishReason | None = None
        try:
            outputs = self._parts.bridge.generate(
                self._registered, question.token_ids, question.sampling, request_id, **self._traced
            )
            async with aclosing(outputs):
                async for output in outputs:
                    self._take(output)
                    text = words.step(output.token_ids) if words is not None else ""
                    reason = output.finish_reason
                    if words is not None and words.stopped:
                        reason = "stop"
                    elif words is not None and reason is not None:
                        text += words.finish()
                        reason = "stop" if words.stopped else reason
                    if output.token_ids or text:
                        yield Piece(output.token_ids, text)
                    if reason is not None:
                        break
            if reason is None:
                raise EngineError("engine_failed", "The engine ended its answer without a word; look into its log.")
        finally:
            # The blocks of an answer are waited for only where the engine ended it.
            residency.settle(prediction, self.cached_tokens, self._token_ids if reason is not None else ())
        yield End(reason, self._receipt(prediction))

    def _take(self, output: Output) -> None:
        self.cached_tokens = output.cached_tokens if output.cached_tokens is not None else self.cached_tokens
        self._times = output.times or self._times
        self._token_ids += output.token_ids
        if self.first_token_s is None and output.token_ids:
            self.first_token_s = time.perf_counter() - self._arrived
            self._place.first_token()
            self._observe(self.first_token_s)

    def _observe(self, first_token_s: float) -> None:
        if self._parts.metrics is None:
            return
        times = self._times or Times(None, None)
        self._parts.metrics.observe(
            FirstToken(first_token_s, self._admitted_s, times.queue_s, times.compute_s, self._is_warm())
        )

    def _is_warm(self) -> bool:
        size = self._parts.registry.pool.block_size
        whole = self._registered.num_tokens // size * size
        return self._place.waited_for != "read" and self.cached_tokens is not None and self.cached_tokens >= whole

    def _receipt(self, prediction: Any) -> Receipt:
        return Receipt(
            prompt_tokens=self.prompt_tokens,
            resident_tokens=self._resident_tokens,
            cached_tokens=self.cached_tokens,
            predicted_cached_tokens=prediction.cached_tokens,
            output_tokens=len(self._token_ids),
            queue_ms=None if self._times is None or self._times.queue_s is None else self._times.queue_s * 1000,
            first_token_ms=None if self.first_token_s is None else self.first_token_s * 1000,
            total_ms=(time.perf_counter() - self._arrived) * 1000,
            prefix=self._registered.id,
            waited_for=self._place.waited_for,
        )
