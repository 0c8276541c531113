"""Decides who looks at a page of documents, in which language, and how a refusal looks: a page with one sentence.

What somebody may not see is a page that is not there (404), word for word. Everything is drawn for one person at one
moment, so nothing is kept by a browser or a proxy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from app.browse.words import counted, say
from app.page.door import token_of
from app.page.log import explain
from app.page.words import language_of_browser
from app.page.words import say as say_on_page
from app.people.member import Member
from app.problem import Problem, tell
from app.words import Language

if TYPE_CHECKING:
    from jinja2 import Environment

    from app.browse.place import Place

# Beside the chat page's own, looser policy: a browser obeys both.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "vary": "accept-language, cookie",
}
# When a page's script looks again: while somebody's own files come in, and while something else there moves.
SOON_MS, LATER_MS = 1_000, 3_000
_STATUS = {
    "not_found": 404,
    "no_such_chat": 404,
    "not_allowed": 403,
    "not_logged_in": 401,
    "foreign_form": 403,
    "too_large": 413,
    "unforeseen": 500,
}


@dataclass(frozen=True)
class Visit:
    """One request of one person; `place` is what stands behind all pages."""

    request: Request
    place: Place
    member: Member
    language: Language

    @property
    def root(self) -> str:
        """What stands before each path where a proxy serves the page below a folder."""
        return str(self.request.scope.get("root_path", ""))

    def say(self, key: str, **values: object) -> str:
        return say(key, self.language, **values)

    def query(self, key: str) -> str:
        return self.request.query_params.get(key, "").strip()

    def part(self, key: str) -> str:
        """Of the path."""
        return str(self.request.path_params[key])

    def link(self, *parts: str, **query: object) -> str:
        """`link("documents", kb, q="tide")`: each part and value is encoded."""
        path = "/".join(["", *(quote(part, safe="") for part in parts)])
        given = {key: str(value) for key, value in query.items() if value not in ("", None)}
        asked = "&".join(f"{key}={quote(value, safe='')}" for key, value in given.items())
        return f"{self.root}{path}" + (f"?{asked}" if asked else "")

    async def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Drawn in a thread: a long list takes a while, and others' answers stream meanwhile."""
        return HTMLResponse(await run_in_threadpool(self._draw, template, values), status, HEADERS)

    def _draw(self, template: str, values: dict[str, Any]) -> str:
        return _templates().get_template(template).render(visit=self, **_tools(self.language), **values)

    def go(self, *parts: str, **query: object) -> Response:
        """After a form: the page that shows what came of it, so that loading it again does nothing."""
        return RedirectResponse(self.link(*parts, **query), 303, HEADERS)

    def explained(self, error: Exception) -> str:
        return explain(error, self.place.host.settings.home, self.language)

    @property
    def wants_json(self) -> bool:
        return "application/json" in self.request.headers.get("accept", "")


Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True)
class Stranger:
    """What a page needs where nobody is known."""

    root: str
    language: Language
    member: None = None
    say: Callable[..., str] = field(default=lambda key, **values: "")


def answered(place: Place, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """`handler` for whoever asks; each refusal and mishap becomes a page, or JSON for the page's own script."""

    async def answer(request: Request) -> Response:
        language = language_of_browser(request.headers.get("accept-language"))
        try:
            if request.method == "POST":
                _refuse_foreign(request, language)
            sentence = say_on_page("signed_out", language)
            person = await run_in_threadpool(place.login.required, token_of(request.scope), sentence)
            member = Member(await place.host.opened(), place.desk.library, person)
            return await handler(Visit(request, place, member, language))
        except Exception as error:  # The one place where these pages tell what went wrong.
            problem = tell(error) or Problem("unforeseen", explain(error, place.host.settings.home, language))
            return refusal(request, problem, language)

    return answer


def _refuse_foreign(request: Request, language: Language) -> None:
    """A browser says with each form from where it comes; what does not is no form of these pages."""
    told = request.headers.get("origin")
    own = {request.headers.get("host", "")}
    own |= {name.strip() for name in request.headers.get("x-forwarded-host", "").split(",")}
    if told is None or urlsplit(told).netloc not in own - {""}:
        raise Problem("foreign_form", say("foreign_form", language))


def refusal(request: Request, problem: Problem, language: Language) -> Response:
    """A page with the problem's sentence, or JSON for a page's own script."""
    status = _STATUS.get(problem.code, 422)
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse({"problem": problem.message, "code": problem.code}, status, HEADERS)
    root = str(request.scope.get("root_path", ""))
    if status == 401:
        return RedirectResponse(f"{root}/login", 303, HEADERS)
    # Of a page that is not there no more is said than that: neither what it would be nor whose.
    sentence = say("nothing_here", language) if problem.code == "not_found" else problem.message
    stranger = Stranger(root, language, say=lambda key, **values: say(key, language, **values))
    html = _templates().get_template("refusal.html").render(visit=stranger, sentence=sentence, **_tools(language))
    return HTMLResponse(html, status, HEADERS)


async def no_such_chat(request: Request) -> Response:
    """What opens in place of a chat that is not there, or not the caller's."""
    language = language_of_browser(request.headers.get("accept-language"))
    return refusal(request, Problem("no_such_chat", say("no_such_chat", language)), language)


def _tools(language: Language) -> dict[str, Any]:
    def words(key: str, **values: object) -> str:
        return say(key, language, **values)

    def count(key: str, number: int, **values: object) -> str:
        return counted(key, number, language, **values)

    return {"t": words, "count": count, "language": language}


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
