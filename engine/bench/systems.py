"""Decides how each system is asked: readonce through its own client, a plain server the three ways that it offers.

chat    /v1/chat/completions, the document as text: what an application does that does nothing about the cache
ids     /v1/completions with token ids
tokens  /inference/v1/generate, token ids in and out, no text at all (vLLM 0.26 to 0.29; later behind a flag)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Literal

from engine.base import EngineError, Finish, Prefix, Prompt, Sampling
from engine.bench.base import Arrivals, Document, OnArrival, System, Timing
from engine.bench.documents import Encoder
from engine.bench.http import Connections
from engine.server import RunningEngine

if TYPE_CHECKING:
    from engine.base import Engine

PlainName = Literal["chat", "ids", "tokens"]
_ROUTES: dict[PlainName, str] = {
    "chat": "/v1/chat/completions",
    "ids": "/v1/completions",
    "tokens": "/inference/v1/generate",
}


def open_plain(name: PlainName, running: RunningEngine, encoder: Encoder) -> System:
    """A plain server over one of its routes."""
    return _Plain(name, running.model, encoder, Connections(running.url, running.token))


def open_readonce(client: Engine, url: str) -> System:
    """Our engine through our client, which it closes at its end."""
    return _Readonce(client, Connections(url))


class _Readonce:
    name = "readonce"

    def __init__(self, client: Engine, connections: Connections) -> None:
        self._client = client
        self._connections = connections
        self._prefixes: dict[int, Prefix] = {}

    async def ask(
        self, document: Document, question_ids: tuple[int, ...], num_output: int, on_arrival: OnArrival | None = None
    ) -> Timing:
        prefix = self._prefixes.get(document.number)
        if prefix is None:
            prefix = self._prefixes[document.number] = Prefix(document.ids, name=f"bench/{document.number}")
        sampling = Sampling(max_tokens=num_output, min_tokens=num_output, ignore_eos=True)
        finish: Finish | None = None
        has_ids = False
        arrivals = Arrivals(asyncio.get_running_loop().time, on_arrival)
        async for event in self._client.generate(Prompt(prefix, question_ids), sampling):
            if isinstance(event, Finish):
                finish = event
            elif event.token_ids or not has_ids:  # words that were held back come at the end, without a token
                has_ids = bool(event.token_ids)
                arrivals.note(len(event.token_ids) or None)
        timing = finish and arrivals.timing(
            prompt_tokens=finish.receipt.prompt_tokens,
            cached_tokens=finish.receipt.cached_tokens,
            output_tokens=finish.receipt.output_tokens,
        )
        return timing or _nothing_came(self.name)

    async def pool_used(self) -> float | None:
        return await self._connections.pool_used()

    async def close(self) -> None:
        # An engine that goes on after us is not to keep what nobody will ask about.
        with contextlib.suppress(EngineError):
            for prefix in self._prefixes.values():
                await self._client.free_prefix(prefix)
        await self._client.close()
        await self._connections.close()


class _Plain:
    def __init__(self, name: PlainName, model: str, encoder: Encoder, connections: Connections) -> None:
        self.name = name
        self._model = model
        self._encoder = encoder
        self._connections = connections

    async def ask(
        self, document: Document, question_ids: tuple[int, ...], num_output: int, on_arrival: OnArrival | None = None
    ) -> Timing:
        body = self._body(document, question_ids, num_output)
        arrivals = Arrivals(asyncio.get_running_loop().time, on_arrival)
        usage: dict[str, Any] = {}
        async with contextlib.aclosing(self._connections.stream(_ROUTES[self.name], body)) as events:
            async for event in events:
                usage = event.get("usage") or usage
                for choice in event.get("choices") or ():
                    ids = choice.get("token_ids")
                    if ids or "text" in choice or _is_word(choice.get("delta", {})):
                        arrivals.note(len(ids) if ids else None)
        timing = arrivals.timing(
            prompt_tokens=int(usage.get("prompt_tokens") or document.num_tokens + len(question_ids)),
            cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
            output_tokens=usage.get("completion_tokens"),
        )
        return timing or _nothing_came(self.name)

    async def pool_used(self) -> float | None:
        return await self._connections.pool_used()

    async def close(self) -> None:
        await self._connections.close()

    def _body(self, document: Document, question_ids: tuple[int, ...], num_output: int) -> bytes:
        """The request; what is long was written before, once a document."""
        sampling = {"max_tokens": num_output, "min_tokens": num_output, "ignore_eos": True, "temperature": 0}
        fields: dict[str, Any] = {"model": self._model, "stream": True, "stream_options": {"include_usage": True}}
        if self.name == "tokens":
            fields["sampling_params"] = sampling | {"detokenize": False}
        else:
            fields |= sampling
        head = json.dumps(fields).encode()[:-1]
        if self.name == "chat":
            words = json.dumps(self._encoder.decode(question_ids)).encode()[1:]
            return head + b', "messages": [{"role": "user", "content": ' + document.text_json + words + b"}]}"
        key = b"token_ids" if self.name == "tokens" else b"prompt"
        tail = json.dumps(question_ids).encode()[1:]
        return head + b', "' + key + b'": ' + document.ids_json + b"," + tail + b"}"


def _is_word(delta: dict[str, Any]) -> bool:
    """The first event of a chat only says who speaks; a token's text may be empty."""
    return "content" in delta and "role" not in delta


def _nothing_came(name: str) -> Timing:
    raise EngineError("engine_failed", f"An answer of {name} ended before a word of it came; look into its log.")
