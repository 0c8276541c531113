"""Decides what stands behind a one-time link: a plain page on which somebody sets their password, once."""

from __future__ import annotations

import html
from collections.abc import Callable
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.page.words import language_of_browser, say
from app.people.accounts import People
from app.people.passwords import FEWEST_CHARACTERS, MOST_CHARACTERS
from app.problem import Problem

PATH = "/readonce/welcome"
_MOST_BYTES = 16_384


def link(page_url: str, secret: str) -> str:
    """Where a browser finds it."""
    return f"{page_url}{PATH}?link={quote(secret)}"


def welcome(people: Callable[[], People]) -> Callable[[Request], object]:
    """The route's handler: GET shows the form, POST sets the password and leads to the login.

    A link that was used, has run out or never was gets one page with one status, 404.
    """

    async def handler(request: Request) -> Response:
        sheet = _Sheet(request)
        if request.method == "GET":
            secret = request.query_params.get("link", "")
            name = await run_in_threadpool(people().whose_link, secret)
            return sheet.gone() if name is None else sheet.form(name, secret)
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BYTES:
                return Response(status_code=413)
        fields = parse_qs(body.decode("utf-8", "replace"))
        secret, password = (fields.get(key, [""])[0] for key in ("link", "password"))
        name = await run_in_threadpool(people().whose_link, secret)
        if name is None:
            return sheet.gone()
        try:
            await run_in_threadpool(people().use_link, secret, password)
        except Problem as problem:
            return sheet.gone() if problem.code == "link_used" else sheet.form(name, secret, again=True)
        return RedirectResponse(f"{sheet.root}/login", status_code=303)

    return handler


class _Sheet:
    """The page for one request, in its reader's language and the colours of the pages of documents."""

    def __init__(self, request: Request) -> None:
        self.root = str(request.scope.get("root_path", ""))
        self.language = language_of_browser(request.headers.get("accept-language"))

    def form(self, name: str, secret: str, again: bool = False) -> Response:
        hint = self._say("password_hint", fewest=FEWEST_CHARACTERS)
        words = f"""
<h1>{self._say("welcome", name=name)}</h1>
<form method="post" action="{html.escape(self.root + PATH)}">
<input type="hidden" name="link" value="{html.escape(secret)}">
<input type="text" name="username" value="{html.escape(name)}" autocomplete="username" hidden>
<label for="password">{self._say("new_password")}</label>
<input id="password" name="password" type="password" autocomplete="new-password" required autofocus
 minlength="{FEWEST_CHARACTERS}" maxlength="{MOST_CHARACTERS}" aria-describedby="hint">
<p id="hint" class="{"notice" if again else "hint"}"{' role="alert"' if again else ""}>{hint}</p>
<button class="first">{self._say("set_password")}</button>
</form>"""
        return self._page(words, 422 if again else 200)

    def gone(self) -> Response:
        return self._page(f"<h1>{self._say('link_gone')}</h1>", 404)

    def _say(self, key: str, **values: object) -> str:
        return html.escape(say(key, self.language, **values))

    def _page(self, words: str, status: int) -> Response:
        root = html.escape(self.root)
        page = f"""<!doctype html>
<html lang="{self.language}"><head><meta charset="utf-8"><title>readonce</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="{root}/public/favicon.svg">
<link rel="stylesheet" href="{root}/readonce/theme.css">
<link rel="stylesheet" href="{root}/public/documents.css">
</head><body>
<header><a class="home" href="{root}/">readonce</a></header>
<main class="alone">{words}</main>
</body></html>"""
        return HTMLResponse(page, status, headers={"cache-control": "no-store"})
