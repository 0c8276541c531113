"""Decides how a question travels to our routes: the handle and the tail's ids; words are made of the ids on this side.

A handle that the server does not know (another prefix took its place, its state was lost) is registered, once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from engine.account import Account
from engine.base import Delta, Features, Handle, Prefix, Prompt, Sampling
from engine.detokenize import Detokenizer, Vocabulary
from engine.features import features_of
from engine.handle_calls import End, HandleCalls, Piece, UnknownPrefixError, Warm
from engine.server import RunningEngine

if TYPE_CHECKING:
    from engine.tokenizer import Tokenizer


class HandlesPath:
    """The way to a server with our routes.

    Args:
        tokenizer: Makes the words on this side; None: the server makes them.
    """

    def __init__(self, running: RunningEngine, tokenizer: Tokenizer | None) -> None:
        self._running = running
        self._vocabulary = None if tokenizer is None else Vocabulary(tokenizer.fast)
        self._calls = HandleCalls(running)

    @property
    def features(self) -> Features:
        return features_of(self._running)

    async def answer(
        self, prompt: Prompt, sampling: Sampling, account: Account, headers: Mapping[str, str]
    ) -> AsyncGenerator[Delta, None]:
        words = self._words(sampling)
        async with self._open(prompt, sampling, words is None, headers) as events:
            async for event in events:
                if isinstance(event, End):
                    account.reason = event.reason
                    account.prompt_tokens, account.cached_tokens = event.prompt_tokens, event.cached_tokens
                else:
                    account.token_ids += event.token_ids
                    yield Delta(event.text if words is None else words.step(event.token_ids), tuple(event.token_ids))
        if words is not None and (rest := words.finish()):
            yield Delta(rest, ())

    async def cache_prefix(
        self, prefix: Prefix, ttl_s: float | None, pin: bool, session: str | None, wait: bool
    ) -> Handle | None:
        warm: Warm = "now" if wait else "background"
        try:
            return await self._calls.change(prefix, warm, ttl_s, pin, session)
        except UnknownPrefixError:
            return await self._calls.register(prefix, warm, ttl_s, pin, session)

    async def free_prefix(self, prefix: Prefix) -> None:
        await self._calls.free(prefix)

    async def release_session(self, session: str) -> None:
        await self._calls.release(session)

    async def close(self) -> None:
        await self._calls.close()

    @asynccontextmanager
    async def _open(
        self, prompt: Prompt, sampling: Sampling, text: bool, headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncGenerator[Piece | End, None]]:
        async with AsyncExitStack() as opened:
            try:
                events = await opened.enter_async_context(
                    self._calls.generate(prompt.prefix, prompt.tail_ids, sampling, text, headers)
                )
            except UnknownPrefixError:
                # Not read ahead: the question that follows is what has it read.
                await self._calls.register(prompt.prefix, "no")
                events = await opened.enter_async_context(
                    self._calls.generate(prompt.prefix, prompt.tail_ids, sampling, text, headers)
                )
            yield events

    def _words(self, sampling: Sampling) -> Detokenizer | None:
        """None where the server makes the words: it ends an answer at a stop string, and tells its receipt."""
        return None if self._vocabulary is None or sampling.stop else Detokenizer(self._vocabulary)
