"""Decides how an answer goes to a program: piece by piece as it comes, in OpenAI's form, or its end alone."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from app.answer import Answer, Event, Words
from app.api.forms import Completion, chunk, extras, finish_reason, problem_body, safe_text, usage_chunk
from app.api.words import Shown
from app.problem import Problem


async def last_of(events: AsyncGenerator[Event, None]) -> Answer:
    async with aclosing(events):
        last: Event | None = None
        async for event in events:
            last = event
    assert isinstance(last, Answer)  # `Member.ask` promises it
    return last


async def streamed(
    completion_id: str,
    wanted: Completion,
    most_tokens: int,
    first: Event,
    events: AsyncGenerator[Event, None],
    keep: Callable[[str], None],
    problem_of: Callable[[Exception], Problem],
) -> AsyncIterator[str]:
    """Server-sent events as OpenAI sends them. Where the client goes away the engine is stopped."""
    shown, sent = Shown(), ""
    with_usage = wanted.stream_options is not None and wanted.stream_options.include_usage
    # Where usage was asked for, each piece but the last has it too, as null.
    beside: dict[str, Any] = {"usage": None} if with_usage else {}

    def line(value: dict[str, Any]) -> str:
        return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"

    yield line(chunk(completion_id, wanted.model, {"role": "assistant", "content": ""}) | beside)
    try:
        async with aclosing(events):
            event = first
            while not isinstance(event, Answer):
                words = shown.take(event.text) if isinstance(event, Words) else ""
                if words:
                    sent += words
                    yield line(chunk(completion_id, wanted.model, {"content": words}) | beside)
                event = await anext(events)
        rest = _rest(event, sent, shown)
        sent += rest
        if rest:
            yield line(chunk(completion_id, wanted.model, {"content": rest}) | beside)
        finish = finish_reason(event, most_tokens)
        yield line(chunk(completion_id, wanted.model, {}, finish) | beside | extras(event))
        if with_usage:
            yield line(usage_chunk(completion_id, wanted.model, event))
        yield "data: [DONE]\n\n"
    except Exception as error:  # the status has gone out: OpenAI's clients raise for such a line
        yield line(problem_body(problem_of(error))[1])
    finally:
        keep(sent)


def _rest(answer: Answer, sent: str, shown: Shown) -> str:
    """What follows the words that were sent: the held end of an answer that stands, or why it does not."""
    if not answer.abstained:
        return shown.end()
    return f"\n\n{safe_text(answer)}" if sent.strip() else safe_text(answer)
