"""Decides the form of what programs send and get: OpenAI's, with citations, receipt and abstained beside it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.answer import Answer
from app.api.turns import Said
from app.page.text import without_addresses
from app.problem import Problem
from app.terminal import plain

_STATUS = {
    "not_found": 404,
    "model_not_found": 404,
    "not_allowed": 403,
    "not_logged_in": 401,
    "unforeseen": 500,
    "engine_starting": 503,
    "prompt_too_long": 400,
}
# Clients know these by OpenAI's names: some cut the conversation then, or ask for another key.
_ITS_CODES = {
    "not_logged_in": "invalid_api_key",
    "prompt_too_long": "context_length_exceeded",
    "question_too_long": "context_length_exceeded",
}
# What can't be had: to ignore it would be to answer something else than what was asked.
_REFUSED = ("tools", "functions", "logprobs", "top_logprobs", "audio", "web_search_options")
# Chat programs have titles, tags and follow-up questions written by whatever model they show; so does Open WebUI.
_CHORE_BEGINS = "### Task:"
_CHORE_HOLDS = "<chat_history>", "### Chat History:"


class Refused(Problem):
    """A request that can't be answered as it was sent.

    Args:
        param: The field that is meant, as OpenAI's errors name it.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(code, message, usage=True)
        self.param = param


class Part(BaseModel):
    """A piece of a message."""

    model_config = ConfigDict(extra="allow")
    type: str
    text: str = ""


class Message(BaseModel):
    """A turn. `system` and `developer` messages are not read: the instructions are part of what is cached."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None

    @property
    def words(self) -> str:
        """Raises:
        Problem: `unsupported` where a part is not text.
        """
        if isinstance(self.content, str):
            return self.content
        for part in self.content or []:
            if part.type not in ("text", "input_text", "output_text"):
                raise _unsupported(f"a message part of the type {part.type}", "messages")
        return "\n".join(part.text for part in self.content or [])


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="allow")
    include_usage: bool = False


class Completion(BaseModel):
    """A question: the last user message. Those before it are its conversation. Sampling is readonce's own."""

    model_config = ConfigDict(extra="allow")
    model: str = Field(description="The knowledge base that is asked.")
    messages: list[Message] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    document: str | None = Field(None, description="The id of the one document that is asked; left out: all.")

    def taken_apart(self) -> tuple[tuple[Said, ...], str]:
        """The turns before, and the question.

        Raises:
            Problem: `unsupported`, `bad_request`.
        """
        self._refuse_what_is_not_here()
        said: list[Said] = []
        asked: list[str] = []
        for message in self.messages:
            if message.role == "user":
                asked.append(message.words)
            elif message.role == "assistant" and asked:
                said.append(Said("\n".join(asked), message.words))
                asked = []
        if not asked:
            raise Refused("bad_request", "The last message has to be the user's question.", "messages")
        question = "\n".join(asked)
        if question.lstrip().startswith(_CHORE_BEGINS) and any(each in question for each in _CHORE_HOLDS):
            raise Refused(
                "unsupported",
                "Titles, tags and suggestions for chats are not written here, this answers questions about documents;"
                " turn them off in your program, or choose another model for them (in Open WebUI: the task model).",
                "messages",
            )
        return tuple(said), question

    def _refuse_what_is_not_here(self) -> None:
        more = self.model_extra or {}
        if (self.n or 1) != 1:
            raise _unsupported("n other than 1", "n")
        for name in _REFUSED:
            if more.get(name):
                raise _unsupported(name, name)
        form = more.get("response_format")
        if form and not (isinstance(form, dict) and form.get("type") == "text"):
            raise _unsupported("a response_format other than text", "response_format")
        if any(kind != "text" for kind in more.get("modalities") or ()):
            raise _unsupported("a modality other than text", "modalities")


class Search(BaseModel):
    """What is looked for, without asking a model."""

    query: str
    model: str | None = Field(None, description="The knowledge base; left out: all that the key may read.")
    k: int = Field(10, ge=1, le=100)


def _unsupported(what: str, param: str) -> Problem:
    return Refused("unsupported", f"{what} is not supported here; leave it out.", param)


def problem_body(problem: Problem) -> tuple[int, dict[str, Any]]:
    """The status and OpenAI's error object."""
    engine = problem.code.startswith("engine")
    status = _STATUS.get(problem.code, 503 if engine else 400 if problem.usage else 422)
    kinds = {401: "authentication_error", 403: "permission_error", 500: "server_error", 503: "server_error"}
    code = _ITS_CODES.get(problem.code, problem.code)
    kind = kinds.get(status, "invalid_request_error")
    param = problem.param if isinstance(problem, Refused) else None
    return status, {"error": {"message": problem.message, "type": kind, "param": param, "code": code}}


def safe_text(answer: Answer) -> str:
    """The checked answer; an address stands in it only where a quote has it."""
    return without_addresses(answer.text, "\n".join(citation.quote for citation in answer.citations))


def extras(answer: Answer) -> dict[str, Any]:
    """What readonce tells beside OpenAI's fields; `answer` has the marks that `citations` are numbered by."""
    return {
        "answer": safe_text(answer),
        "abstained": answer.abstained,
        "citations": plain(answer.citations),
        "receipt": plain(answer.receipt),
        "reading": plain(answer.reading),
    }


def usage(answer: Answer) -> dict[str, Any]:
    """Null for what the engine did not report, 0 where no model was asked."""
    receipt = answer.receipt
    if receipt is None:
        counts = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 0)
        return {**counts, "prompt_tokens_details": {"cached_tokens": 0}}
    return {
        "prompt_tokens": receipt.prompt_tokens,
        "completion_tokens": receipt.output_tokens,
        "total_tokens": receipt.prompt_tokens + (receipt.output_tokens or 0),
        "prompt_tokens_details": {"cached_tokens": receipt.cached_tokens},
    }


def finish_reason(answer: Answer, most_tokens: int) -> str:
    """`length` where the model was cut off after `most_tokens`; what an abstention says is never cut."""
    told = answer.receipt.output_tokens if answer.receipt is not None else None
    return "length" if not answer.abstained and told is not None and told >= most_tokens else "stop"


def whole(completion_id: str, model: str, answer: Answer, finish: str) -> dict[str, Any]:
    """The answer in one piece."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": safe_text(answer), "refusal": None},
        "logprobs": None,
        "finish_reason": finish,
    }
    head = _head(completion_id, model, "chat.completion")
    return head | {"choices": [choice], "usage": usage(answer)} | extras(answer)


def chunk(completion_id: str, model: str, delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    """A piece of a stream."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _head(completion_id, model, "chat.completion.chunk") | {"choices": [choice]}


def usage_chunk(completion_id: str, model: str, answer: Answer) -> dict[str, Any]:
    return _head(completion_id, model, "chat.completion.chunk") | {"choices": [], "usage": usage(answer)}


def models(names: Sequence[str]) -> dict[str, Any]:
    return {"object": "list", "data": [model(name) for name in names]}


def model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "readonce"}


def _head(completion_id: str, model: str, kind: str) -> dict[str, Any]:
    return {"id": completion_id, "object": kind, "created": int(time.time()), "model": model}
