"""Decides how our routes reach the engine in their own server: a prefix and a tail in, token ids out.

Everything above (`plugin`, `warm`, `admission`) speaks this and knows nothing of vLLM.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.base import FinishReason, Sampling
from engine.registered import Registered


@dataclass(frozen=True)
class Times:
    """Where a request's time went until its first token, in seconds; None where the engine does not tell.

    Attributes:
        queue_s: From its arrival in the engine core until it was first scheduled.
        compute_s: From then until its first token was drawn.
    """

    queue_s: float | None
    compute_s: float | None


@dataclass(frozen=True)
class Output:
    """What a request gave since the last output.

    Attributes:
        token_ids: New ones; may be empty in the last output.
        cached_tokens: Prompt tokens that came from the cache; the same in every output, None where not reported.
        finish_reason: None until the last output.
    """

    token_ids: tuple[int, ...]
    cached_tokens: int | None
    finish_reason: FinishReason | None = None
    times: Times | None = None


class Bridge(Protocol):
    """The engine core, seen from the server's event loop.

    Attributes:
        block_size: Tokens in a block.
        num_blocks: Blocks of the pool; one of them is vLLM's null block.
        max_model_len: Tokens of prompt and answer.
        device: `cpu` or `cuda`.
    """

    @property
    def block_size(self) -> int: ...

    @property
    def num_blocks(self) -> int: ...

    @property
    def max_model_len(self) -> int: ...

    @property
    def device(self) -> str: ...

    def generate(
        self,
        prefix: Registered,
        tail_ids: Sequence[int],
        sampling: Sampling,
        request_id: str,
        *,
        trace_headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Output, None]:
        """Streams an answer's ids; closing the generator aborts the request. `sampling.stop` is the caller's affair.

        Args:
            trace_headers: `traces.Span.headers`: vLLM's own span goes below that one.

        Raises:
            EngineError: `prompt_too_long`, `engine_failed`.
        """
        ...

    async def read(self, prefix: Registered, num_tokens: int, priority: int, request_id: str) -> int | None:
        """Has the first `num_tokens` of a prefix computed (one more token follows them, one is drawn and thrown away).

        Cancelling aborts it in the engine. Returns the tokens that were cached already, None where not reported.
        """
        ...

    async def forget(self, prefix: Registered) -> int:
        """Has the prefix's blocks dropped that nobody uses now; the number of dropped blocks, 0 where it can't."""
        ...
