"""Decides how a server is asked how likely a text is: all ids to `/v1/completions`, a logarithm for each back.

Nothing is generated but one id that is thrown away. vLLM answers it, with our routes or without.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.base import EngineError, Prompt
from engine.connections import Connections
from engine.errors import of_answer, other_version
from engine.server import RunningEngine

if TYPE_CHECKING:
    from engine.salts import Salts

_OK = 200


class Likelihoods:
    """One server's answers to it, for one event loop.

    Args:
        salts: None: nothing is salted.
    """

    def __init__(self, running: RunningEngine, salts: Salts | None) -> None:
        self._running = running
        self._salts = salts
        self._connections = Connections(running.url, running.token)

    async def of_tail(self, prompt: Prompt) -> tuple[float, ...]:
        """As `base.Engine.log_probabilities`. Cancelling closes the connection, and so aborts it in the engine."""
        body: dict[str, Any] = {
            "model": self._running.model,
            "prompt": prompt.token_ids,
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
        }
        if self._salts is not None:
            body["cache_salt"] = self._salts.salt_of(prompt.prefix.namespace)
        url = self._running.url
        async with self._connections.request("POST", "/v1/completions", json.dumps(body).encode()) as answer:
            told = (await answer.read()).decode("utf-8", "replace")
            status = answer.status
        if status != _OK:
            raise of_answer(status, told, url)
        try:
            places = json.loads(told)["choices"][0].get("prompt_logprobs")
            if places is None:
                raise EngineError(
                    "no_likelihoods", f"The server at {url} does not say how likely a text is; use vLLM for it."
                )
            tail = zip(prompt.tail_ids, places[prompt.prefix.num_tokens :], strict=True)
            return tuple(float(place[str(id_)]["logprob"]) for id_, place in tail)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise other_version(error, url) from error

    async def close(self) -> None:
        await self._connections.close()
