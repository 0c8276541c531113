"""Decides how a request of ours becomes one of vLLM's: through `AsyncLLM`, inside vLLM's own server.

With the core's memo (`core`) the prompt that travels is the tail (`requests`); without it, all ids.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any

from engine.base import EngineError, FinishReason, Sampling
from engine.bridge import Bridge, Output, Times
from engine.core import is_marked, is_sealed, without_mark
from engine.registered import Registered
from engine.requests import Requests, Way

_log = logging.getLogger("vllm.readonce")


def open_bridge(engine_client: Any, uses_core: bool) -> Bridge:
    """The engine of this server.

    Args:
        engine_client: vLLM's `AsyncLLM`.
        uses_core: The engine core keeps prefixes (`core.install` succeeded there).
    """
    bridge = VllmBridge(engine_client)
    if uses_core:
        _send_tails_only(engine_client, bridge.seal)
        bridge.uses_core = True
    return bridge


class VllmBridge:
    """See `bridge.Bridge`."""

    def __init__(self, engine_client: Any) -> None:
        config = engine_client.vllm_config
        self._client = engine_client
        self._cache = config.cache_config
        self.uses_core = False
        self.seal = secrets.token_hex(16)
        self._requests = Requests(engine_client, self.seal)
        self.max_model_len: int = config.model_config.max_model_len
        self.device: str = config.device_config.device_type
        self._takes_priority = config.scheduler_config.policy == "priority"

    @property
    def block_size(self) -> int:
        return int(self._cache.block_size)

    @property
    def num_blocks(self) -> int:
        return int(self._cache.num_gpu_blocks or 0)

    async def generate(
        self,
        prefix: Registered,
        tail_ids: Sequence[int],
        sampling: Sampling,
        request_id: str,
        *,
        trace_headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Output, None]:
        room = self.max_model_len - prefix.num_tokens - len(tail_ids)
        if room < 1:
            raise EngineError(
                "prompt_too_long",
                f"The prompt has {prefix.num_tokens + len(tail_ids):,} tokens and the engine takes at most "
                f"{self.max_model_len - 1:,}; ask about fewer pages, or start it with a larger max_model_len.",
            )
        way = Way.of(sampling, room)
        outputs = self._start(prefix, prefix.num_tokens, tail_ids, way, request_id, sampling.priority, trace_headers)
        async with contextlib.aclosing(outputs):
            async for output in outputs:
                yield output

    async def read(self, prefix: Registered, num_tokens: int, priority: int, request_id: str) -> int | None:
        way = Way(max_tokens=1, ignore_eos=True)
        follows = [int(prefix.token_ids[0])]
        cached, reason = None, None
        outputs = self._start(prefix, num_tokens, follows, way, request_id, priority)
        async with contextlib.aclosing(outputs):
            async for output in outputs:
                cached, reason = output.cached_tokens, output.finish_reason
        if reason in (None, "abort"):
            raise EngineError("engine_failed", f"The engine gave up reading the prefix {prefix.id}; read it again.")
        return cached

    async def forget(self, prefix: Registered) -> int:
        if not self.uses_core:
            return 0
        return int(await self._client.engine_core.call_utility_async("readonce_forget", prefix.id, prefix.salt))

    async def none_hash(self) -> bytes | None:
        """Where the core's chains of block hashes begin; None where it can't be asked."""
        if not self.uses_core:
            return None
        return bytes(await self._client.engine_core.call_utility_async("readonce_none_hash"))

    async def _start(
        self,
        prefix: Registered,
        num_tokens: int,
        tail_ids: Sequence[int],
        way: Way,
        request_id: str,
        priority: int,
        trace_headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Output, None]:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        with _refusals():
            prompt, params = await self._prompt(prefix, num_tokens, tail_ids, way, request_id, priority, trace_headers)
        queued: dict[str, int] = {"priority": priority} if self._takes_priority else {}
        outputs = self._client.generate(prompt, params, request_id, trace_headers=trace_headers, **queued)
        try:
            async with contextlib.aclosing(outputs):
                async for output in outputs:
                    given = output.outputs[0]
                    if given.finish_reason == "error":
                        raise EngineError(
                            "engine_failed",
                            f"The engine could not go on with the request {request_id}; its log says why.",
                        )
                    yield Output(
                        tuple(given.token_ids),
                        output.num_cached_tokens,
                        _reason(given.finish_reason) if output.finished else None,
                        _times(output.metrics),
                    )
        except (EngineDeadError, EngineGenerateError) as error:
            raise EngineError("engine_failed", f"The engine failed ({error}); look into its log.") from error
        except _refusing() as error:
            raise _refused(error) from error

    async def _prompt(
        self,
        prefix: Registered,
        num_tokens: int,
        tail_ids: Sequence[int],
        way: Way,
        request_id: str,
        priority: int,
        trace_headers: Mapping[str, str] | None,
    ) -> tuple[Any, Any]:
        """The prompt or the whole request, and its `SamplingParams`."""
        if self.uses_core:
            queued = priority if self._takes_priority else 0
            request = await self._requests.make(way, prefix, num_tokens, tail_ids, request_id, queued, trace_headers)
            return request, request.sampling_params
        from vllm.inputs.engine import tokens_input

        salt = {"cache_salt": prefix.salt} if prefix.salt else {}
        return tokens_input([*prefix.token_ids[:num_tokens].tolist(), *tail_ids], **salt), way.params()


def _send_tails_only(engine_client: Any, seal: str) -> None:
    """What a marked request sends to the core is its mark: the tail is in it, the prefix is there.

    A mark of somebody else's making goes no further: it would read a prefix of any namespace, and its ids were checked
    by nobody.
    """
    engine_core = engine_client.engine_core
    add_request: Callable[[Any], Any] = engine_core.add_request_async

    @functools.wraps(add_request)
    async def adding(request: Any) -> Any:
        sampling = request.sampling_params
        if sampling is not None and is_marked(sampling.extra_args):
            request = copy.copy(request)
            if is_sealed(sampling.extra_args, seal):
                request.prompt_token_ids = [0]
            else:
                _log.warning("A client's request names a prefix of readonce's in vllm_xargs; that is left out.")
                request.sampling_params = copy.copy(sampling)
                request.sampling_params.extra_args = without_mark(sampling.extra_args)
        return await add_request(request)

    engine_core.add_request_async = adding


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What vLLM does not take of a request is the asker's to mend, not the engine's."""
    try:
        yield
    except _refusing() as error:
        raise _refused(error) from error


def _refusing() -> tuple[type[Exception], ...]:
    from vllm import exceptions

    # The older one has ValueErrors only; a schema of many levels is too deep for Python's own JSON.
    return ValueError, RecursionError, getattr(exceptions, "VLLMClientError", ValueError)


def _refused(error: Exception) -> EngineError:
    return EngineError("bad_request", f"The engine refuses the request: {error}")


def _reason(reason: str | None) -> FinishReason:
    if reason == "length":
        return "length"
    return "stop" if reason == "stop" else "abort"


def _times(stats: Any) -> Times | None:
    if stats is None or not stats.scheduled_ts or not stats.queued_ts:
        return None
    computed = stats.first_token_ts - stats.scheduled_ts if stats.first_token_ts else None
    return Times(stats.scheduled_ts - stats.queued_ts, computed)
