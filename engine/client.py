"""Decides how a prompt travels to a server: token ids to `/v1/completions`, words back as they come, a receipt last.

The server is ours, any vLLM, or any OpenAI-compatible server that takes token ids. One that refuses vLLM's fields is
asked without them: then nothing is salted, no raw ids come back and the receipt says "not reported".
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from engine.base import Delta, EngineError, Finish, FinishReason, Prefix, Prompt, Receipt, Sampling
from engine.errors import broken_off, translated
from engine.ledger import Ledger
from engine.server import RunningEngine

if TYPE_CHECKING:
    from openai import AsyncStream
    from openai.types import Completion

_CONNECT_TIMEOUT_S = 5.0
# What is read ahead gives way to what somebody waits for.
_WARM_PRIORITY = 10


class Client:
    """An engine behind HTTP. Use it in one event loop; it opens as many connections as there are streams.

    Args:
        running: From `lease.connect`, or `probe.probe(url)`.
        ledger: Remembers why prefixes were cold; in memory where None.
        encode: Gives an answer's ids where the server does not return them (`Tokenizer.encode_text`).
        api_key: For a server that wants another one than `running.token`.
    """

    def __init__(
        self,
        running: RunningEngine,
        ledger: Ledger | None = None,
        *,
        encode: Callable[[str], Sequence[int]] | None = None,
        api_key: str | None = None,
    ) -> None:
        from openai import AsyncOpenAI, Timeout

        self.running = running
        self._ledger = ledger or Ledger()
        self._encode = encode
        self._knows_vllm_fields = True
        # A long document may be read for minutes before the first byte comes back: no limit on reading.
        self._openai = AsyncOpenAI(
            base_url=f"{running.url}/v1",
            api_key=api_key or running.token or "none",
            max_retries=0,
            timeout=Timeout(None, connect=_CONNECT_TIMEOUT_S),
        )

    @property
    def model(self) -> str:
        return self.running.model

    @property
    def max_model_len(self) -> int:
        return self.running.max_model_len

    def generate(self, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
        """Streams the answer; `Finish` comes last. Closing the generator closes the connection: the engine aborts.

        Raises:
            EngineError: `engine_unreachable`, `prompt_too_long`, `engine_failed`.
        """
        return self._stream(prompt, sampling)

    async def warm(self, prefix: Prefix) -> Receipt:
        """Reads `prefix` ahead of its first question.

        One token follows it (the one that begins every tail): a lookup never returns a whole prompt, so a prefix that
        fills its last block would have that block computed again.
        """
        prompt = Prompt(prefix, prefix.token_ids[:1])
        async for event in self._stream(prompt, Sampling(max_tokens=1, priority=_WARM_PRIORITY)):
            if isinstance(event, Finish):
                return event.receipt
        raise EngineError("engine_failed", "The engine ended its answer without a word about it; look into its log.")

    async def close(self) -> None:
        await self._openai.close()
        self._ledger.close()

    async def _stream(self, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
        room = self.max_model_len - prompt.num_tokens
        if room < 1:
            raise EngineError(
                "prompt_too_long",
                f"The prompt has {prompt.num_tokens} tokens and the engine takes at most {self.max_model_len - 1}; "
                "ask about fewer pages, begin a new conversation, or start the engine with a larger max_model_len.",
            )
        started = time.perf_counter()
        first_token_ms: float | None = None
        token_ids: list[int] = []
        text = ""
        cached_tokens: int | None = None
        num_prompt_tokens, num_output_tokens = prompt.num_tokens, None
        reason: FinishReason | None = None
        try:
            async with translated(self.running.url), self._open(prompt, sampling, room) as chunks:
                async for chunk in chunks:
                    if chunk.usage is not None:
                        num_prompt_tokens = chunk.usage.prompt_tokens or num_prompt_tokens
                        num_output_tokens = chunk.usage.completion_tokens
                        details = chunk.usage.prompt_tokens_details
                        cached_tokens = details.cached_tokens if details else cached_tokens
                    for choice in chunk.choices:
                        ids = tuple(getattr(choice, "token_ids", None) or ())
                        if first_token_ms is None and (ids or choice.text):
                            first_token_ms = _ms_since(started)
                        token_ids += ids
                        text += choice.text
                        reason = _reason(choice.finish_reason) if choice.finish_reason else reason
                        if ids or choice.text:
                            yield Delta(choice.text, ids)
        finally:
            # Also where the stream was stopped: what it had read is in the engine's cache.
            verdict = self._ledger.settle(
                prompt.prefix,
                instance=self.running.instance,
                cached_tokens=cached_tokens,
                first_token_ms=first_token_ms,
                block_size=self.running.block_size,
            )
        if reason is None:
            raise broken_off(self.running.url)
        if not token_ids and text and self._encode is not None:
            token_ids = list(self._encode(text))
        receipt = Receipt(
            prompt_tokens=num_prompt_tokens,
            cached_tokens=cached_tokens,
            output_tokens=len(token_ids) if num_output_tokens is None else num_output_tokens,
            first_token_ms=first_token_ms,
            total_ms=_ms_since(started),
            prefix=prompt.prefix.id,
            cold_because=verdict.cold_because,
            cold_first_token_ms=verdict.cold_first_token_ms,
        )
        yield Finish(receipt, tuple(token_ids), reason)

    @contextlib.asynccontextmanager
    async def _open(self, prompt: Prompt, sampling: Sampling, room: int) -> AsyncIterator[AsyncStream[Completion]]:
        from openai import BadRequestError, UnprocessableEntityError

        try:
            stream = await self._request(prompt, sampling, room, self._knows_vllm_fields)
        except (BadRequestError, UnprocessableEntityError) as error:
            if not self._knows_vllm_fields or not _is_about_fields(str(error)):
                raise
            stream = await self._request(prompt, sampling, room, False)
            self._knows_vllm_fields = False
        try:
            yield stream
        finally:
            await stream.close()

    async def _request(
        self, prompt: Prompt, sampling: Sampling, room: int, with_vllm_fields: bool
    ) -> AsyncStream[Completion]:
        # The openai package walks through a `prompt` argument id by id (0.75 s for 41,000), not through `extra_body`.
        fields: dict[str, Any] = {"prompt": prompt.token_ids}
        if with_vllm_fields:
            fields |= {"return_token_ids": True, "repetition_penalty": sampling.repetition_penalty}
            if prompt.prefix.salt:
                fields["cache_salt"] = prompt.prefix.salt
            if sampling.priority:
                fields["priority"] = sampling.priority
        return await self._openai.completions.create(
            model=self.model,
            prompt="",
            max_tokens=min(sampling.max_tokens, room),
            temperature=sampling.temperature,
            stop=list(sampling.stop) or None,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=fields,
        )


_FIELDS = ("return_token_ids", "repetition_penalty", "cache_salt", "priority", "extra", "unrecognized", "unknown field")


def _is_about_fields(message: str) -> bool:
    lowered = message.lower()
    return any(field in lowered for field in _FIELDS)


def _reason(reason: str) -> FinishReason:
    if reason == "length":
        return "length"
    return "stop" if reason == "stop" else "abort"


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
