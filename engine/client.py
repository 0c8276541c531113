"""Decides which way a question takes to a server: by handle where our routes are, else by token ids.

our routes    client_handles        POST /v1/prefixes/ID/generate: only the tail travels
any other     client_completions    POST /v1/completions: all ids travel with each question
either        likelihood            POST /v1/completions: how likely a text is
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from engine.account import Account
from engine.base import Delta, EngineError, Features, Finish, Handle, Prefix, Prompt, Receipt, Sampling
from engine.client_completions import CompletionsPath
from engine.client_handles import HandlesPath
from engine.errors import broken_off
from engine.ledger import Ledger
from engine.likelihood import Likelihoods
from engine.server import RunningEngine
from engine.traces import Traces, off

if TYPE_CHECKING:
    from engine.salts import Salts
    from engine.tokenizer import Tokenizer

# What is read ahead gives way to what somebody waits for.
_WARM_PRIORITY = 10

_log = logging.getLogger(__name__)


class Path(Protocol):
    """One way to a server."""

    @property
    def features(self) -> Features: ...

    def answer(
        self, prompt: Prompt, sampling: Sampling, account: Account, headers: Mapping[str, str]
    ) -> AsyncGenerator[Delta, None]:
        """Streams an answer and writes into `account` what comes with it: ids, figures, the reason of its end.

        Args:
            headers: What a trace continues from.
        """
        ...

    async def cache_prefix(
        self, prefix: Prefix, ttl_s: float | None, pin: bool, session: str | None, wait: bool
    ) -> Handle | None:
        """None where a prefix can only be read by asking about it."""
        ...

    async def free_prefix(self, prefix: Prefix) -> None: ...

    async def release_session(self, session: str) -> None: ...

    async def close(self) -> None: ...


class Client:
    """An engine behind HTTP. Use it in one event loop; it opens as many connections as there are streams.

    Args:
        running: From `lease.connect`, or `probe.probe(url)`; its `features` decide the way.
        ledger: Remembers why prefixes were cold; in memory where None.
        tokenizer: Makes words of ids, and ids of words where a server returns none. Without it our routes make the
            words, and the ids of another server's answers stay unknown.
        salts: Where a server without our routes gets its `cache_salt` from; it is asked without one where None.
        traces: Where each question's span goes; closed with the client. None: nothing is traced.
    """

    def __init__(
        self,
        running: RunningEngine,
        ledger: Ledger | None = None,
        *,
        tokenizer: Tokenizer | None = None,
        salts: Salts | None = None,
        traces: Traces | None = None,
    ) -> None:
        self.running = running
        self._ledger = ledger or Ledger()
        self._traces = traces or off()
        self._path: Path
        if running.features is not None:
            self._path = HandlesPath(running, tokenizer)
        else:
            self._path = CompletionsPath(running, tokenizer, salts)
        self._likelihoods = Likelihoods(running, salts)
        self._reading: set[asyncio.Task[None]] = set()

    @property
    def model(self) -> str:
        return self.running.model

    @property
    def max_model_len(self) -> int:
        return self.running.max_model_len

    @property
    def features(self) -> Features:
        return self._path.features

    async def generate(self, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
        """Streams the answer; `Finish` comes last. Closing the generator closes the connection: the engine aborts.

        Raises:
            EngineError: `engine_unreachable`, `prompt_too_long`, `engine_failed`, or the code that our routes gave.
        """
        room = self._room_after(prompt)
        account = Account(self._ledger, self.running, prompt)
        span = self._traces.start("question", prefix=prompt.prefix.id, prompt_tokens=prompt.num_tokens)
        sampling = replace(sampling, max_tokens=min(sampling.max_tokens, room))
        failure: Exception | None = None
        try:
            async with aclosing(self._path.answer(prompt, sampling, account, span.headers)) as pieces:
                async for piece in pieces:
                    account.came()
                    yield piece
            if account.reason is None:
                raise broken_off(self.running.url)
        except Exception as error:
            failure = error
            raise
        finally:
            receipt = account.receipt(account.settle())
            span.note(
                cached_tokens=receipt.cached_tokens,
                output_tokens=receipt.output_tokens,
                first_token_ms=receipt.first_token_ms,
            )
            span.end(failure)
        yield Finish(receipt, tuple(account.token_ids), account.reason)

    async def log_probabilities(self, prompt: Prompt) -> tuple[float, ...]:
        """See `base.Engine`."""
        self._room_after(prompt)
        return await self._likelihoods.of_tail(prompt)

    async def warm(self, prefix: Prefix) -> Receipt:
        """Reads `prefix` ahead of its first question.

        One token follows it (the one that begins every tail): a lookup never returns a whole prompt, so a prefix that
        fills its last block would have that block computed again.
        """
        prompt = Prompt(prefix, prefix.token_ids[:1])
        async with aclosing(self.generate(prompt, Sampling(max_tokens=1, priority=_WARM_PRIORITY))) as events:
            async for event in events:
                if isinstance(event, Finish):
                    return event.receipt
        raise broken_off(self.running.url)

    async def cache_prefix(
        self,
        prefix: Prefix,
        *,
        ttl_s: float | None = None,
        pin: bool = False,
        session: str | None = None,
        wait: bool = True,
    ) -> Handle:
        """See `base.Engine`. A server without our routes reads it as a question does; `wait` or not."""
        handle = await self._path.cache_prefix(prefix, ttl_s, pin, session, wait)
        if handle is not None:
            return handle
        if wait:
            await self.warm(prefix)
        else:
            task = asyncio.create_task(self._read_ahead(prefix))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        return Handle(prefix.id, prefix.num_tokens, None, "unknown")

    async def free_prefix(self, prefix: Prefix) -> None:
        await self._path.free_prefix(prefix)
        self._ledger.forget(lambda handle, name: handle == prefix.id)

    async def release_session(self, session: str) -> None:
        await self._path.release_session(session)

    async def close(self) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        await self._path.close()
        await self._likelihoods.close()
        self._ledger.close()
        await asyncio.to_thread(self._traces.close)

    def _room_after(self, prompt: Prompt) -> int:
        """Tokens that may follow. Raises EngineError: `prompt_too_long`."""
        room = self.max_model_len - prompt.num_tokens
        if room < 1:
            raise EngineError(
                "prompt_too_long",
                f"The prompt has {prompt.num_tokens} tokens and the engine takes at most {self.max_model_len - 1}; "
                "ask about fewer pages, begin a new conversation, or start the engine with a larger max_model_len.",
            )
        return room

    async def _read_ahead(self, prefix: Prefix) -> None:
        try:
            await self.warm(prefix)
        except EngineError as error:  # nobody waits for it: the first question says what is wrong
            _log.warning("%s was not read ahead: %s", prefix.name or prefix.id, error.message)
