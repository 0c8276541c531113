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
from app.words import Language

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
        language = language_of_browser(request.headers.get("accept-language"))
        if request.method == "GET":
            secret = request.query_params.get("link", "")
            name = await run_in_threadpool(people().whose_link, secret)
            return _gone(language) if name is None else _form(language, name, secret)
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BYTES:
                return Response(status_code=413)
        fields = parse_qs(body.decode("utf-8", "replace"))
        secret, password = (fields.get(key, [""])[0] for key in ("link", "password"))
        name = await run_in_threadpool(people().whose_link, secret)
        if name is None:
            return _gone(language)
        try:
            await run_in_threadpool(people().use_link, secret, password)
        except Problem as problem:
            return _gone(language) if problem.code == "link_used" else _form(language, name, secret, again=True)
        return RedirectResponse("/login", status_code=303)

    return handler


def _form(language: Language, name: str, secret: str, again: bool = False) -> Response:
    hint = say("password_hint", language, fewest=FEWEST_CHARACTERS)
    words = f"""
<h1>{html.escape(say("welcome", language, name=name))}</h1>
<form method="post" action="{PATH}">
<input type="hidden" name="link" value="{html.escape(secret)}">
<input type="text" name="username" value="{html.escape(name)}" autocomplete="username" hidden>
<label for="password">{html.escape(say("new_password", language))}</label>
<input id="password" name="password" type="password" autocomplete="new-password" required autofocus
 minlength="{FEWEST_CHARACTERS}" maxlength="{MOST_CHARACTERS}" aria-describedby="hint">
<p id="hint"{' role="alert"' if again else ""}>{html.escape(hint)}</p>
<button>{html.escape(say("set_password", language))}</button>
</form>"""
    return _page(language, words, 422 if again else 200)


def _gone(language: Language) -> Response:
    return _page(language, f"<h1>{html.escape(say('link_gone', language))}</h1>", 404)


def _page(language: Language, words: str, status: int) -> Response:
    page = f"""<!doctype html><html lang="{language}"><meta charset="utf-8"><title>readonce</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:24rem;margin:15vh auto;padding:0 1rem}}
h1{{font-size:1.3rem}}label,input,button{{display:block;width:100%;box-sizing:border-box;font:inherit}}
input,button{{padding:.6rem;margin:.4rem 0}}[hidden]{{display:none}}</style>
<main>{words}</main></html>"""
    return HTMLResponse(page, status, headers={"cache-control": "no-store"})
