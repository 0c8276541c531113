"""Decides how programs ask: OpenAI's calls under /v1, where a model is a knowledge base that the key may read.

Bearer keys belong to people and have their rights. Where no login is needed no key is, and whoever reaches the page
reaches this.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from app.answer import Event
from app.api.described import REFUSALS, Answered, File, Files, Hits, Model, Models, answers
from app.api.forms import (
    Completion,
    Refused,
    Search,
    finish_reason,
    model,
    models,
    problem_body,
    safe_text,
    whole,
)
from app.api.gone import unless_gone
from app.api.pieces import last_of, streamed
from app.api.turns import Said, Turns, from_words
from app.conversation import Conversation
from app.page.log import explain
from app.people.desk import Desk
from app.people.member import Member
from app.people.rights import OF_THIS_MACHINE, Person
from app.problem import Problem, tell
from app.terminal import plain
from app.words import Language

if TYPE_CHECKING:
    from app.assistant import Assistant

_ABOUT = (
    "Ask long documents. A model is a knowledge base; answers come with citations and a receipt of what was reused."
)
# Nobody reads it: the program has closed the connection.
_HUNG_UP = 499
_REFUSED_KEY = Problem("not_logged_in", "This API key is not known; `readonce people key NAME` makes one.")
_NO_KEY = Problem(
    "not_logged_in", "An API key is missing (Authorization: Bearer KEY); `readonce people key NAME` makes one."
)


class Backing(Protocol):
    """What answers behind it; the page's host is one."""

    @property
    def problem(self) -> Problem | None: ...
    @property
    def state(self) -> str: ...
    def sentence(self, language: Language) -> str: ...
    async def opened(self) -> Assistant: ...
    def wait(self) -> AsyncIterator[None]: ...
    def asking(self) -> AbstractContextManager[None]: ...


def api(host: Backing, desk: Desk, home: Path, with_login: Callable[[], bool]) -> FastAPI:
    """The routes, to be mounted at /v1.

    Args:
        home: Where errors that nobody foresaw are written down.
        with_login: Whether a key is needed now.
    """
    app = FastAPI(title="readonce", version="1", docs_url=None, redoc_url=None, description=_ABOUT, responses=REFUSALS)
    turns = Turns()
    bearer = HTTPBearer(auto_error=False, description="A key of `readonce people key NAME`.")

    async def member(request: Request, _: object = Depends(bearer)) -> Member:
        scheme, _, words = request.headers.get("authorization", "").partition(" ")
        key = words.strip() if scheme.lower() == "bearer" else ""
        person: Person | None = await run_in_threadpool(desk.keys.whose, key) if key else None
        if person is None:
            if await run_in_threadpool(with_login):
                raise _REFUSED_KEY if key else _NO_KEY
            person = OF_THIS_MACHINE
        return Member(await host.opened(), desk.library, person, "API")

    def told(error: Exception) -> JSONResponse:
        problem = tell(error) or Problem("unforeseen", explain(error, home, "en"))
        status, body = problem_body(problem)
        headers = {"www-authenticate": "Bearer"} if status == 401 else {}
        return JSONResponse(body, status, headers)

    @app.exception_handler(Problem)
    async def on_problem(request: Request, error: Problem) -> JSONResponse:
        return told(error)

    @app.exception_handler(RequestValidationError)
    async def on_bad_form(request: Request, error: RequestValidationError) -> JSONResponse:
        if request.method == "POST" and "json" not in request.headers.get("content-type", ""):
            return told(Problem("bad_request", "The body has to be JSON, sent as application/json.", usage=True))
        first = error.errors()[0]
        where = [str(part) for part in first["loc"][1:]]
        if first["type"] == "json_invalid":
            place = f" at character {where[-1]}" if where else ""
            return told(Refused("bad_request", f"The body is no JSON{place}: {first['ctx']['error']}."))
        return told(
            Refused("bad_request", f"{'.'.join(where) or 'the body'}: {first['msg']}.", ".".join(where) or None)
        )

    @app.exception_handler(HTTPException)
    async def on_no_route(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code != 404:
            return JSONResponse(problem_body(Problem("bad_request", str(error.detail)))[1], error.status_code)
        return told(Problem("not_found", f"There is no {request.method} {request.url.path} here."))

    async def safely(work: Callable[..., Any], *args: Any) -> Any:
        """In a thread; whatever goes wrong becomes a `Problem`, whose sentence the program gets."""
        try:
            return await run_in_threadpool(work, *args)
        except Exception as error:
            raise _problem(error) from error

    def _problem(error: Exception) -> Problem:
        return tell(error) or Problem("unforeseen", explain(error, home, "en"))

    async def readable(who: Member, name: str) -> str:
        """The name of a base that the key may read.

        Raises:
            Refused: `model_not_found`.
        """
        try:
            return str((await safely(who.library.require, who.person, name)).name)
        except Problem as problem:
            if problem.code != "not_found":
                raise
            raise Refused("model_not_found", problem.message, "model") from problem

    @app.get("/models", response_model=None, responses=answers(Models))
    async def list_models(who: Member = Depends(member)) -> dict[str, Any]:
        """The knowledge bases that the key may read."""
        return models([base.name for base in await safely(who.bases)])

    @app.get("/models/{name:path}", response_model=None, responses=answers(Model))
    async def one_model(name: str, who: Member = Depends(member)) -> dict[str, Any]:
        """One of them."""
        return model(await readable(who, name))

    @app.get("/files", response_model=None, responses=answers(Files))
    async def list_files(model: str | None = None, who: Member = Depends(member)) -> dict[str, Any]:
        """The documents of a knowledge base, or of all that the key may read."""
        if model is not None:
            await readable(who, model)
        return {"object": "list", "data": [_file(document) for document in await safely(who.documents, model)]}

    @app.get("/files/{doc_id}", response_model=None, responses=answers(File))
    async def one_file(doc_id: str, who: Member = Depends(member)) -> dict[str, Any]:
        """One document."""
        return _file(await safely(who.document, doc_id))

    @app.get("/files/{doc_id}/content", response_class=FileResponse)
    async def content(doc_id: str, who: Member = Depends(member)) -> Response:
        """Its original bytes, never shown by a browser as a page."""
        document, path = await safely(who.file, doc_id)
        headers = {
            "content-disposition": f"attachment; filename*=utf-8''{quote(document.name)}",
            "x-content-type-options": "nosniff",
        }
        return FileResponse(path, media_type="application/octet-stream", headers=headers)

    @app.post("/search", response_model=None, responses=answers(Hits))
    async def search(wanted: Search, who: Member = Depends(member)) -> dict[str, Any]:
        """The best passages, without asking a model."""
        if wanted.model is not None:
            await readable(who, wanted.model)
        hits = await safely(who.search, wanted.query, wanted.model, wanted.k)
        return {"object": "list", "data": [plain(hit) for hit in hits]}

    @app.post("/chat/completions", response_model=None, responses=answers(Answered, streams=True))
    async def complete(wanted: Completion, request: Request, who: Member = Depends(member)) -> Response:
        """Answers the last user message; `citations`, `receipt`, `abstained` and `answer` come beside OpenAI's fields.

        A stream's words come without marks; its last piece has the checked answer with them.
        """
        said, question = wanted.taken_apart()
        await readable(who, wanted.model)
        async for _ in host.wait():
            pass
        conversation = turns.find(who.person.name, wanted.model, said)
        if conversation is None:
            reader = await who.assistant.reader()
            conversation = await safely(from_words, reader, said)
        completion_id = f"chatcmpl-{secrets.token_hex(12)}"
        most_tokens = who.assistant.settings.answer_tokens
        events = _events(host, who, wanted, question, conversation)

        def keep(content: str) -> None:
            turns.keep(who.person.name, wanted.model, (*said, Said(question, content)), conversation)

        if wanted.stream:
            try:
                first = await anext(events)
            except Exception as error:
                raise _problem(error) from error
            pieces = streamed(completion_id, wanted, most_tokens, first, events, keep, _problem)
            return StreamingResponse(pieces, media_type="text/event-stream", headers={"cache-control": "no-store"})
        try:
            answer = await unless_gone(request, last_of(events))
        except Exception as error:
            raise _problem(error) from error
        if answer is None:
            return Response(status_code=_HUNG_UP)
        keep(safe_text(answer))
        return JSONResponse(whole(completion_id, wanted.model, answer, finish_reason(answer, most_tokens)))

    return app


def ready(host: Backing) -> Callable[[Request], Awaitable[Response]]:
    """A route that says whether a question would be answered now: 200, or 503 with the reason."""

    async def answer(request: Request) -> Response:
        if host.state == "ready":
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": host.state, "reason": host.sentence("en")}, 503)

    return answer


async def _events(
    host: Backing, who: Member, wanted: Completion, question: str, conversation: Conversation
) -> AsyncGenerator[Event, None]:
    asked = who.ask(question, wanted.model, doc_id=wanted.document, conversation=conversation)
    with host.asking():
        async with aclosing(asked) as events:
            async for event in events:
                yield event


def _file(document: Any) -> dict[str, Any]:
    return {
        "id": document.id,
        "object": "file",
        "filename": document.name,
        "title": document.title,
        "bytes": document.num_bytes,
        "model": document.kb,
        "status": document.status,
        "pages": document.pages,
        "created_at": int(datetime.fromisoformat(document.added_at).timestamp()),
    }
