"""Decides how our routes speak JSON: bodies of known fields only, answers, and each error's status."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from engine.base import EngineError, Sampling

T = TypeVar("T", bound=msgspec.Struct)

STATUS: Mapping[str, int] = {
    "bad_request": 400,
    "no_tokenizer": 400,
    "unknown_prefix": 404,
    "pins_full": 409,
    "does_not_fit": 413,
    "prompt_too_long": 413,
    "too_large": 413,
}
MOST_SCHEMA_CHARS = 65_536
MOST_BYTES = 32 * 2**20  # more than two million ids as JSON
_OTHERWISE = 503  # the engine, its disk or its room: another time it may work

Words = Annotated[str, msgspec.Meta(max_length=512)]
TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Warm = Literal["now", "background", "no"]


class Registration(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /v1/prefixes; the ids come in one of the two forms."""

    token_ids: list[TokenId] | None = None
    token_ids_b64: str | None = None
    namespace: Words = ""
    name: Words = ""
    ttl_s: Seconds | None = None
    pin: bool = False
    session: Words | None = None
    warm: Warm = "background"

    def ids(self) -> npt.ArrayLike:
        """Raises EngineError: `bad_request`."""
        if (self.token_ids is None) == (self.token_ids_b64 is None):
            raise EngineError("bad_request", "Give either token_ids or token_ids_b64, and not both.")
        if self.token_ids is not None:
            return np.array(self.token_ids, dtype=np.int64)
        try:
            return np.frombuffer(base64.b64decode(self.token_ids_b64 or "", validate=True), dtype="<i4")
        except (binascii.Error, ValueError) as error:
            raise EngineError(
                "bad_request", f"token_ids_b64 has to be base64 of little-endian int32 numbers ({error})."
            ) from error


class Patch(msgspec.Struct, forbid_unknown_fields=True):
    """The body of PATCH /v1/prefixes/ID; what is not given stays as it is, `"ttl_s": null` means for ever."""

    namespace: Words = ""
    ttl_s: Seconds | msgspec.UnsetType | None = msgspec.UNSET
    pin: bool | None = None
    session: Words | None = None
    warm: Warm = "no"


class Namespace(msgspec.Struct, forbid_unknown_fields=True):
    """The body of DELETE /v1/prefixes/ID."""

    namespace: Words = ""


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /v1/prefixes/ID/generate; `token_ids` is what follows the prefix."""

    token_ids: list[TokenId]
    namespace: Words = ""
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] = 512
    temperature: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    repetition_penalty: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    min_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    ignore_eos: bool = False
    stop: Annotated[list[Annotated[str, msgspec.Meta(min_length=1, max_length=512)]], msgspec.Meta(max_length=16)] = []
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 0
    text: bool = False
    schema: Annotated[str, msgspec.Meta(max_length=MOST_SCHEMA_CHARS)] = ""

    def sampling(self) -> Sampling:
        """Raises EngineError: `bad_request`."""
        if self.min_tokens > self.max_tokens:
            raise EngineError(
                "bad_request",
                f"min_tokens is {self.min_tokens:,} but max_tokens is {self.max_tokens:,}; lower the first.",
            )
        return Sampling(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            stop=tuple(self.stop),
            repetition_penalty=self.repetition_penalty,
            priority=self.priority,
            min_tokens=self.min_tokens,
            ignore_eos=self.ignore_eos,
            schema=self.schema,
        )


class GoneError(Exception):
    """The client hung up."""


async def body_of(scope: Scope, receive: Receive) -> bytes:
    """The whole body of a request; a larger one is refused before it is in memory.

    Raises:
        EngineError: `too_large`.
        GoneError: The client hung up.
    """
    told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    num_told = int(told) if told.isdigit() else 0
    pieces: list[bytes] = []
    num_bytes = 0
    is_whole = False
    while not is_whole:
        if max(num_told, num_bytes) > MOST_BYTES:
            raise EngineError(
                "too_large",
                f"The body of the request is larger than the {MOST_BYTES:,} bytes that are taken; "
                "send fewer token ids, or send them as token_ids_b64.",
            )
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        pieces.append(message.get("body", b""))
        num_bytes += len(pieces[-1])
        is_whole = not message.get("more_body", False)
    return b"".join(pieces)


def read(body: bytes, kind: type[T]) -> T:
    """Raises EngineError: `bad_request`, naming the field."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.DecodeError as error:  # what is no JSON, and what does not fit
        raise EngineError("bad_request", f"The body of the request does not read: {error}.") from error


def reply(answer: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status_code=status, media_type="application/json")


def problem(error: EngineError) -> Response:
    return reply(error_body(error), STATUS.get(error.code, _OTHERWISE))


def error_body(error: EngineError) -> dict[str, dict[str, str]]:
    return {"error": {"code": error.code, "message": error.message}}


def answering(handler: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """A route: what `handler` returns as JSON, its EngineErrors with their status."""

    async def answer(request: Request) -> Response:
        try:
            return reply(await handler(request))
        except EngineError as error:
            return problem(error)
        except GoneError:
            return Response(status_code=499)  # nobody is there to read it

    return answer


def plain(value: Any) -> dict[str, Any]:
    """A frozen dataclass as JSON has it."""
    return asdict(value)
