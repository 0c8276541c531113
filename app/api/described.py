"""Decides what the OpenAPI description tells of answers: OpenAI's fields, ours beside them, and errors in one form."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from app.answer import Citation, Reading
from engine.base import Receipt


class ErrorBody(BaseModel):
    """`code` is stable; `message` is one sentence: what is wrong with which value, and what to do."""

    message: str
    type: str
    param: str | None
    code: str


class Error(BaseModel):
    """What every refusal is."""

    error: ErrorBody


class Model(BaseModel):
    """A knowledge base."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class Models(BaseModel):
    object: Literal["list"]
    data: list[Model]


class File(BaseModel):
    """A document of the knowledge base `model`; `created_at` is Unix time in seconds."""

    id: str
    object: Literal["file"]
    filename: str
    title: str
    bytes: int
    model: str
    status: str
    pages: int
    created_at: int


class Files(BaseModel):
    object: Literal["list"]
    data: list[File]


class Hit(BaseModel):
    """A place in a document; start and end are characters of its text, pages are sheets from 1."""

    doc_id: str
    page: int
    start: int
    end: int
    score: float
    text: str


class Hits(BaseModel):
    object: Literal["list"]
    data: list[Hit]


class AnswerMessage(BaseModel):
    role: Literal["assistant"]
    content: str
    refusal: str | None


class Choice(BaseModel):
    index: int
    message: AnswerMessage
    logprobs: None
    finish_reason: Literal["stop", "length"]


class CachedTokens(BaseModel):
    cached_tokens: int | None


class Usage(BaseModel):
    """Null is what the engine did not report."""

    prompt_tokens: int
    completion_tokens: int | None
    total_tokens: int
    prompt_tokens_details: CachedTokens


class Answered(BaseModel):
    """A whole answer. `answer` has the marks that `citations` are numbered by; `receipt` says what was reused.

    A stream brings OpenAI's pieces; the one with the `finish_reason` has the last five fields too.
    """

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    answer: str
    abstained: bool
    citations: list[Citation]
    receipt: Receipt | None
    reading: Reading | None


Responses = dict[int | str, dict[str, Any]]

REFUSALS: Responses = {
    "4XX": {"model": Error, "description": "Refused; the sentence says why."},
    "5XX": {"model": Error, "description": "The engine is not there, or something nobody foresaw."},
}


def answers(kind: type[BaseModel], *, streams: bool = False) -> Responses:
    """What a call that succeeds sends."""
    told: dict[str, Any] = {"model": kind, "description": "Done."}
    if streams:
        told["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    return {200: told}
