"""Decides what the server without a model answers at vLLM's `/v1/completions`: how likely a prompt is, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.base import Prefix, Prompt
from engine.fake import FakeEngine

if TYPE_CHECKING:
    from starlette.routing import Route


def route(engine: FakeEngine, note: Callable[[Sequence[int]], None]) -> Route:
    """POST /v1/completions: `prompt` as ids, `prompt_logprobs`; without the latter it is refused.

    Args:
        note: Called with the ids of each prompt before it is looked at.
    """
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def completions(request: Request) -> Response:
        body = await request.json()
        if body.get("prompt_logprobs") is None:
            return JSONResponse({"error": {"message": "Only prompt_logprobs are told here.", "code": 400}}, 400)
        note(body["prompt"])
        first, *others = body["prompt"]
        prompt = Prompt(Prefix((first,), body.get("cache_salt", "")), tuple(others))
        chances = await engine.log_probabilities(prompt)
        places = [None, *({str(id_): {"logprob": chance}} for id_, chance in zip(others, chances, strict=True))]
        return JSONResponse({"choices": [{"text": "", "prompt_logprobs": places}]})

    return Route("/v1/completions", completions, methods=["POST"])
