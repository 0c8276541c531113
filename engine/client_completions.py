"""Decides how a prompt travels to any OpenAI-compatible server: all token ids to `/v1/completions`, words back.

A server that refuses vLLM's fields is asked without them: then nothing is salted, no raw ids come back and the receipt
says "not reported".
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.account import Account
from engine.base import Delta, EngineError, Features, FinishReason, Handle, Prefix, Prompt, Sampling
from engine.errors import translated
from engine.features import features_of
from engine.server import RunningEngine

if TYPE_CHECKING:
    from openai import AsyncStream
    from openai.types import Completion

    from engine.salts import Salts
    from engine.tokenizer import Tokenizer

_CONNECT_TIMEOUT_S = 5.0


class CompletionsPath:
    """The way to a server that knows no handles.

    Args:
        tokenizer: Makes an answer's ids where the server returns none.
        salts: None: nothing is salted.
    """

    def __init__(self, running: RunningEngine, tokenizer: Tokenizer | None, salts: Salts | None) -> None:
        from openai import AsyncOpenAI, Timeout

        self._running = running
        self._tokenizer = tokenizer
        self._salts = salts
        self._knows_vllm_fields = True
        # A long document may be read for minutes before the first byte comes back: no limit on reading.
        self._openai = AsyncOpenAI(
            base_url=f"{running.url}/v1",
            api_key=running.token or "none",
            max_retries=0,
            timeout=Timeout(None, connect=_CONNECT_TIMEOUT_S),
        )

    @property
    def features(self) -> Features:
        return features_of(self._running, salted=self._knows_vllm_fields)

    async def answer(
        self, prompt: Prompt, sampling: Sampling, account: Account, headers: Mapping[str, str]
    ) -> AsyncGenerator[Delta, None]:
        text = ""
        async with translated(self._running.url), self._open(prompt, sampling, headers) as chunks:
            async for chunk in chunks:
                if chunk.usage is not None:
                    account.prompt_tokens = chunk.usage.prompt_tokens or account.prompt_tokens
                    account.output_tokens = chunk.usage.completion_tokens
                    details = chunk.usage.prompt_tokens_details
                    account.cached_tokens = details.cached_tokens if details else account.cached_tokens
                for choice in chunk.choices:
                    ids = tuple(getattr(choice, "token_ids", None) or ())
                    account.token_ids += ids
                    account.reason = _reason(choice.finish_reason) if choice.finish_reason else account.reason
                    text += choice.text
                    if ids or choice.text:
                        yield Delta(choice.text, ids)
        if not account.token_ids and text and self._tokenizer is not None:
            account.token_ids += self._tokenizer.encode_text(text)

    async def cache_prefix(
        self, prefix: Prefix, ttl_s: float | None, pin: bool, session: str | None, wait: bool
    ) -> Handle | None:
        return None

    async def free_prefix(self, prefix: Prefix) -> None:
        """The server has no word for it: what nobody asks about goes by itself."""

    async def release_session(self, session: str) -> None:
        """The server knows of no sessions."""

    async def close(self) -> None:
        await self._openai.close()

    @contextlib.asynccontextmanager
    async def _open(
        self, prompt: Prompt, sampling: Sampling, headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncStream[Completion]]:
        from openai import BadRequestError, UnprocessableEntityError

        try:
            stream = await self._request(prompt, sampling, headers, self._knows_vllm_fields)
        except (BadRequestError, UnprocessableEntityError) as error:
            if not self._knows_vllm_fields or not _is_about_fields(str(error)):
                raise
            stream = await self._request(prompt, sampling, headers, False)
            self._knows_vllm_fields = False
        try:
            yield stream
        finally:
            await stream.close()

    async def _request(
        self, prompt: Prompt, sampling: Sampling, headers: Mapping[str, str], with_vllm_fields: bool
    ) -> AsyncStream[Completion]:
        # The openai package walks through a `prompt` argument id by id (0.75 s for 41,000), not through `extra_body`.
        fields: dict[str, Any] = {"prompt": prompt.token_ids}
        if with_vllm_fields:
            fields |= {"return_token_ids": True, "repetition_penalty": sampling.repetition_penalty}
            if self._salts is not None:
                fields["cache_salt"] = self._salts.salt_of(prompt.prefix.namespace)
            if sampling.priority:
                fields["priority"] = sampling.priority
            if sampling.min_tokens:
                fields["min_tokens"] = sampling.min_tokens
            if sampling.ignore_eos:
                fields["ignore_eos"] = True
            if sampling.schema:
                fields["structured_outputs"] = {"json": sampling.schema}
        elif sampling.schema:
            raise EngineError(
                "schema_refused",
                f"The server at {self._running.url} can't hold an answer to a JSON schema; use vLLM, or leave it out.",
            )
        return await self._openai.completions.create(
            model=self._running.model,
            prompt="",
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            stop=list(sampling.stop) or None,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=fields,
            extra_headers=headers,
        )


_FIELDS = ("return_token_ids", "repetition_penalty", "cache_salt", "priority", "extra", "unrecognized", "unknown field")


def _is_about_fields(message: str) -> bool:
    lowered = message.lower()
    return any(field in lowered for field in _FIELDS)


def _reason(reason: str) -> FinishReason:
    if reason == "length":
        return "length"
    return "stop" if reason == "stop" else "abort"
