"""Decides what vLLM's request for one of our questions looks like: made by vLLM once a way to sample, then copied.

Of two questions that sample alike only the prompt and the names differ; making each anew was part of the half
millisecond before it went to the core. vLLM's detokenizer is off: it would walk through the whole prompt first.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base import Sampling
from engine.core import mark
from engine.registered import Registered

_MOST_KEPT = 64


@dataclass(frozen=True)
class Way:
    """How a request samples.

    Attributes:
        schema: A JSON schema that the answer holds to; "" for none.
    """

    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    temperature: float = 0.0
    repetition_penalty: float = 1.0
    schema: str = ""

    @classmethod
    def of(cls, sampling: Sampling, room: int) -> Way:
        """Args: `room`, tokens that the answer may have at most."""
        return cls(
            min(sampling.max_tokens, room),
            min(sampling.min_tokens, room),
            sampling.ignore_eos,
            sampling.temperature,
            sampling.repetition_penalty,
            sampling.schema,
        )

    def params(self) -> Any:
        """vLLM's `SamplingParams`; raises what vLLM raises."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            max_tokens=self.max_tokens,
            min_tokens=self.min_tokens,
            ignore_eos=self.ignore_eos,
            temperature=self.temperature,
            repetition_penalty=self.repetition_penalty,
            structured_outputs=_held_to(self.schema),
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )


class Requests:
    """Requests whose prompt is a prefix that the core keeps, and a tail (`core.mark`).

    Args:
        client: vLLM's `AsyncLLM`.
        seal: Of the marks.
    """

    def __init__(self, client: Any, seal: str) -> None:
        self._client = client
        self._seal = seal
        self._made: dict[Way, Any] = {}

    async def make(
        self,
        way: Way,
        prefix: Registered,
        num_tokens: int,
        tail_ids: Sequence[int],
        request_id: str,
        priority: int,
        trace_headers: Mapping[str, str] | None,
    ) -> Any:
        """vLLM's `EngineCoreRequest`.

        Args:
            num_tokens: Of the prefix, how many its prompt begins with.
        """
        request = copy.copy(self._made.get(way) or await self._first(way))
        request.request_id = request_id
        # The front end only counts them, for its metrics and its answers.
        request.prompt_token_ids = range(num_tokens + len(tail_ids))
        request.arrival_time = time.time()
        request.cache_salt = prefix.salt
        request.priority = priority
        request.trace_headers = trace_headers
        sampling = request.sampling_params = copy.copy(request.sampling_params)
        sampling.extra_args = mark(sampling.extra_args, prefix.id, num_tokens, tail_ids, self._seal)
        return request

    async def _first(self, way: Way) -> Any:
        from vllm.inputs.engine import tokens_input

        made = self._client.input_processor.process_inputs(
            "readonce", tokens_input([0]), way.params(), supported_tasks=await self._client.get_supported_tasks()
        )
        while len(self._made) >= _MOST_KEPT:
            self._made.pop(next(iter(self._made)))
        self._made[way] = made
        return made


def _held_to(schema: str) -> Any:
    """vLLM's way to say that an answer holds to a JSON schema; None where there is none."""
    if not schema:
        return None
    from vllm.sampling_params import StructuredOutputsParams

    return StructuredOutputsParams(json=schema)
