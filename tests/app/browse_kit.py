"""What the tests of the documents' pages bring along: the pages over a fake engine, and somebody who looks at them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape

import httpx
from library import FakePower
from starlette.applications import Starlette

from app.assistant import Assistant
from app.browse.place import Place
from app.browse.routes import place_of, routes
from app.page.host import Host
from app.people.desk import Desk
from app.people.rights import OF_THIS_MACHINE, Person
from app.problem import Problem
from engine.fake import FakeEngine

HERE = "http://readonce"
MARSH = "# The marsh book\n\nThe sluice is opened by Ilse Torp at half past five every morning.\n"
SALT = "# The salt book\n\nA barrel of salt weighs ninety pounds and costs four marks.\n"


class Door:
    """In place of the login: a cookie says a name, and is believed. Without accounts nobody is asked."""

    def __init__(self, desk: Desk) -> None:
        self._people = desk.people

    def required(self, token: str | None, sentence: str) -> Person:
        if not self._people.any():
            return OF_THIS_MACHINE
        person = self._people.find(token) if token else None
        if person is None or person.disabled:
            raise Problem("not_logged_in", sentence)
        return person


@dataclass
class Browser:
    """One person's: sends their cookie, and with each form where it comes from."""

    http: httpx.AsyncClient
    name: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"cookie": f"access_token={self.name}"} if self.name else {}

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.http.get(path, headers=self.headers | headers)

    async def post(
        self, path: str, data: dict[str, str] | None = None, files: Sequence[tuple[str, bytes]] = (), **headers: str
    ) -> httpx.Response:
        sent = [("files", (name, content, "application/octet-stream")) for name, content in files]
        told = self.headers | {"origin": HERE} | {name: value for name, value in headers.items() if value}
        if headers.get("origin") == "":
            del told["origin"]
        return await self.http.post(path, data=data, files=sent or None, headers=told)


@dataclass
class Pages:
    """The pages, and what stands behind them."""

    place: Place
    assistant: Assistant
    desk: Desk
    engine: FakeEngine
    power: FakePower
    http: httpx.AsyncClient

    def browser(self, name: str = "") -> Browser:
        return Browser(self.http, name)

    async def settled(self) -> None:
        await self.place.arrivals.settled()
        await self.place.guides.settled()


def app_of(assistant: Assistant, desk: Desk) -> tuple[Place, Starlette]:
    host = Host(assistant.settings)
    host.assistant, host.state = assistant, "ready"
    place = place_of(host, desk, Door(desk))  # type: ignore[arg-type]
    return place, Starlette(routes=routes(place))


def words(html: str) -> str:
    """What a person reads of a page, in one line."""
    return " ".join(
        unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<(script|title)\b.*?</\1>", " ", html, flags=re.S))).split()
    )
