"""Decides how OpenAI's batch files are read and answered: a request a line with a custom_id, and a response a line.

A request's question is its last user message. Its document, knowledge base, deadline and what it follows up stand in
the body's `metadata`, under the names of those columns. Answers come in the order of the requests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from app.batch.question import BatchAnswer, BatchError
from app.problem import Problem
from app.question_file.columns import Columns, Roles, roles_of
from app.question_file.format_jsonl import Line
from app.question_file.table import Filled, Kind, Row, Table
from app.question_file.text import TextForm
from app.terminal import count, plain

URL = "/v1/chat/completions"
_ID, _QUESTION = "custom_id", "question"
# Of a body; the model is the engine's, and comes back as it was named.
_USED = {"model", "messages", "metadata"}
_NOT_ANSWERED = BatchError("not_answered", "The batch ended before this request: go on with --resume.")


@dataclass(frozen=True)
class OpenAiFormat:
    """Requests in, responses out. `models` is what each request asked for, `created` seconds since 1970."""

    form: TextForm
    models: tuple[str, ...]
    refused: tuple[BatchError | None, ...]
    created: int

    @property
    def kind(self) -> Kind:
        return "openai"

    def write(self, filled: Filled) -> tuple[bytes, list[str]]:
        return self.form.write("".join(self.line(filled, row) for row in range(len(filled.table.rows))))

    def line(self, filled: Filled, row: int) -> str:
        """The response to one request, as it stands in the file."""
        answer = filled.answers[row][0]
        custom_id = filled.table.rows[row].cells[0]
        error = self.refused[row] or (answer.error if answer else _NOT_ANSWERED)
        said = {
            "id": f"batch_req_{_digest(custom_id, row)}",
            "custom_id": custom_id,
            "response": None if error or answer is None else self._response(custom_id, row, answer),
            "error": None if error is None else {"code": error.code, "message": error.message},
        }
        text = json.dumps(said, ensure_ascii=False)
        return (text if self.form.holds(text) else json.dumps(said)) + self.form.newline

    def _response(self, custom_id: str, row: int, answer: BatchAnswer) -> dict[str, Any]:
        digest = _digest(custom_id, row)
        body = {
            "id": f"chatcmpl-{digest}",
            "object": "chat.completion",
            "created": self.created,
            "model": self.models[row],
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": answer.answer, "refusal": None},
                    "logprobs": None,
                    "finish_reason": "length" if answer.is_cut else "stop",
                }
            ],
            "usage": _usage(answer),
            "readonce": {
                "abstained": answer.abstained,
                "pages": list(answer.pages),
                "citations": plain(answer.citations),
                "seconds": answer.seconds,
                "seconds_late": answer.late_s,
            },
        }
        return {"status_code": 200, "request_id": f"req_{digest}", "body": body}


def is_openai(lines: Sequence[Line]) -> bool:
    return bool(lines) and {_ID, "body"} <= lines[0].value.keys()


def read_openai(
    lines: Sequence[Line], form: TextForm, name: str, columns: Columns, created: int
) -> tuple[Table, Roles, OpenAiFormat, list[str]]:
    """Reads requests; one that can't be a question is refused alone, with its sentence in its response.

    Raises:
        Problem: `bad_question_file`: a line is no request.
    """
    metadata = tuple(
        dict.fromkeys(key for line in lines if isinstance(line.value.get("body"), dict) for key in _metadata(line))
    )
    names = (_ID, _QUESTION, *(key for key in metadata if key not in (_ID, _QUESTION)))
    rows, models, refused, num_system = [], [], [], 0
    unused: dict[str, None] = {}
    for line in lines:
        body = line.value.get("body")
        custom_id = line.value.get(_ID)
        if not isinstance(custom_id, str) or not custom_id or not isinstance(body, dict):
            raise Problem(
                "bad_question_file",
                f"Line {line.number} of {name} is no batch request: it needs a custom_id, a method, a url and a body.",
            )
        question, error = _question(line)
        num_system += any(_role(message) in ("system", "developer") for message in _messages(body))
        unused |= dict.fromkeys(key for key in body if key not in _USED)
        given = _metadata(line)
        rows.append(Row(line.number, (custom_id, question, *(given.get(key, "") for key in names[2:])), False))
        models.append(str(body.get("model") or ""))
        refused.append(error)
    said = []
    if num_system:
        said.append(f"{count(num_system, 'system message')} not used: --system FILE gives the batch's instructions.")
    if unused:
        said.append(f"Not used of the requests: {', '.join(unused)}.")
    wanted = replace(columns, questions=(_QUESTION,), id=_ID)
    table = Table(names, tuple(rows), place="line")
    return table, roles_of(names, wanted, name), OpenAiFormat(form, tuple(models), tuple(refused), created), said


def _question(line: Line) -> tuple[str, BatchError | None]:
    """The last user message, or why there is none that can be asked."""
    request = line.value
    url = request.get("url", URL)
    if url != URL:
        return "", BatchError("bad_request", f"The url {str(url)[:80]} can't be answered: only {URL} is.")
    messages = _messages(request["body"])
    turns = [message for message in messages if _role(message) not in ("system", "developer")]
    if len(turns) != 1 or _role(turns[0]) != "user":
        return "", BatchError(
            "bad_request",
            f"The request has {count(len(turns), 'message')} beside the system's: give one user message, and name an "
            "earlier request in metadata.follow_up_of to go on from it.",
        )
    content = turns[0].get("content")
    other = next((part for part in content if not _is_text(part)), None) if isinstance(content, list) else None
    if other is not None:
        kind = str(other.get("type", ""))[:80] if isinstance(other, dict) else "no object"
        return "", BatchError(
            "bad_request", f"The message has a part that is no text ({kind}): only texts can be asked."
        )
    text = _text(content).strip()
    if not text:
        return "", BatchError("bad_request", "The user message holds no text: write the question there.")
    return text, None


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def _role(message: dict[str, Any]) -> str:
    return str(message.get("role", ""))


def _text(content: object) -> str:
    """A message's words: a text, or a list of parts that are texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(part["text"] for part in content)


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type", "text") == "text" and isinstance(part.get("text"), str)


def _metadata(line: Line) -> dict[str, str]:
    given = line.value["body"].get("metadata")
    return {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}


def _usage(answer: BatchAnswer) -> dict[str, Any] | None:
    """None where the server told no figures."""
    if answer.prompt_tokens is None or answer.output_tokens is None:
        return None
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.prompt_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


def _digest(custom_id: str, row: int) -> str:
    return sha256(f"{row}\0{custom_id}".encode("utf-8", "replace")).hexdigest()[:24]
