"""Decides how a simulated person uses the page: a login, a socket, questions with pauses, now and then a new chat.

They speak what the page's own script speaks to Chainlit, so that nothing on the way is left out.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.bench.load_facts import Fact
from app.bench.load_home import Account

if TYPE_CHECKING:
    import aiohttp
    import socketio

MOST_WAIT_S = 120.0
# As long as the page's own script waits for its socket.
_CONNECTED_WITHIN_S = 20
_HEARD_WITHIN_S = 10
NEW_CHAT_AFTER = 5
"""Questions, on average."""


@dataclass
class Asked:
    """A question and what came of it; seconds from when it was sent, None where that never came.

    Attributes:
        at: On the machine's monotonic clock.
        whole: Whether the answer holds the fact's sentence, word for word.
        in_order: Whether the words that streamed, put together, are the beginning of that sentence.
    """

    fact: Fact
    way: str
    at: float
    first_s: float | None = None
    done_s: float | None = None
    whole: bool = False
    in_order: bool = False
    problem: str = ""


@dataclass
class Chat:
    """What was asked in one kept chat, in order."""

    thread_id: str = ""
    asked: list[Asked] = field(default_factory=list)


class PagePerson:
    """One person with the page open.

    Args:
        pause: Gives the seconds until the next question.
        wanted: Gives what to ask next.
    """

    def __init__(self, url: str, account: Account, pause: Callable[[], float], wanted: Callable[[], Fact]) -> None:
        self.url = url
        self.account = account
        self.chats: list[Chat] = []
        self.lost_kept: list[str] = []
        self._pause = pause
        self._wanted = wanted
        self._open: Asked | None = None
        self._streamed = ""
        self._ended = asyncio.Event()
        self._socket: socketio.AsyncClient | None = None

    @property
    def asked(self) -> list[Asked]:
        return [asked for chat in self.chats for asked in chat.asked]

    async def work(self, until: float) -> None:
        """Logs in and asks until the monotonic clock says `until`; then reads all chats again."""
        import aiohttp

        jar = aiohttp.CookieJar(unsafe=True)  # of an address too
        # The page takes no change from a cookie alone.
        async with aiohttp.ClientSession(cookie_jar=jar, headers={"Origin": self.url}) as http:
            await self._log_in(http)
            try:
                while time.monotonic() < until:
                    if self._socket is None:
                        await self._open_page(http)
                    await asyncio.sleep(min(self._pause(), max(0.0, until - time.monotonic())))
                    if time.monotonic() >= until:
                        break
                    await self._ask(self._wanted())
                    if len(self.chats[-1].asked) == 1:
                        await self._list_chats(http)
                    if random.random() < 1 / NEW_CHAT_AFTER:
                        await self._leave()
            finally:
                await self._leave()
            await self._read_again(http)

    async def _log_in(self, http: aiohttp.ClientSession) -> None:
        form = {"username": self.account.name, "password": self.account.password}
        async with http.post(f"{self.url}/login", data=form) as answered:
            answered.raise_for_status()
        async with http.get(f"{self.url}/user") as answered:
            answered.raise_for_status()

    async def _open_page(self, http: aiohttp.ClientSession) -> None:
        import socketio

        for path in ("/project/translations?language=en-US", "/project/settings?language=en-US"):
            async with http.get(f"{self.url}{path}") as answered:
                answered.raise_for_status()
                await answered.read()
        await self._list_chats(http)
        session = str(uuid.uuid4())
        async with http.post(f"{self.url}/set-session-cookie", json={"session_id": session}) as answered:
            answered.raise_for_status()
        self._socket = socketio.AsyncClient(http_session=http, reconnection=False, handle_sigint=False)
        self._socket.on("*", self._take)
        await self._socket.connect(
            self.url,
            headers={"Cookie": "; ".join(f"{each.key}={each.value}" for each in http.cookie_jar)},
            auth={"sessionId": session, "clientType": "webapp", "userEnv": "{}", "chatProfile": "", "threadId": ""},
            transports=["websocket"],
            socketio_path="/ws/socket.io",
            wait_timeout=_CONNECTED_WITHIN_S,
        )
        self.chats.append(Chat())
        await self._socket.emit("connection_successful")

    async def _list_chats(self, http: aiohttp.ClientSession) -> None:
        wanted: dict[str, Any] = {"pagination": {"first": 35}, "filter": {}}
        async with http.post(f"{self.url}/project/threads", json=wanted) as answered:
            answered.raise_for_status()
            await answered.read()

    async def _ask(self, fact: Fact) -> None:
        assert self._socket is not None
        message = {
            "id": str(uuid.uuid4()),
            "threadId": "",
            "name": self.account.name,
            "type": "user_message",
            "output": fact.question,
            "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "modes": {"document": f"{self.account.kb}/all"},
        }
        self._streamed = ""
        self._ended.clear()
        self._open = Asked(fact, "page", time.monotonic())
        self.chats[-1].asked.append(self._open)
        await self._socket.emit("client_message", {"message": message, "fileReferences": []})
        try:
            await asyncio.wait_for(self._ended.wait(), MOST_WAIT_S)
        except TimeoutError:
            self._open.problem = f"no end within {MOST_WAIT_S:.0f} s"
        self._open = None

    async def _take(self, event: str, value: Any = None) -> None:
        asked = self._open
        if event == "first_interaction":
            self.chats[-1].thread_id = value["thread_id"]
        if asked is None:
            return
        since = time.monotonic() - asked.at
        if event == "stream_token":
            self._streamed = value["token"] if value["isSequence"] else self._streamed + value["token"]
            if asked.first_s is None and not self._streamed.startswith("*"):  # a line in italics says what goes on
                asked.first_s = since
        elif event in ("update_message", "new_message") and value["type"] == "assistant_message":
            said = " ".join(value["output"].split())
            if value.get("isError"):
                asked.problem = said
            asked.done_s = since
            asked.whole = asked.fact.sentence.rstrip(".") in said
            begun = "" if asked.first_s is None else " ".join(self._streamed.split()).rstrip(" .…")
            asked.in_order = asked.fact.sentence.startswith(begun[: len(asked.fact.sentence) - 1])
            if asked.first_s is None:  # all of it came at once
                asked.first_s = since
        elif event == "task_end" and asked.done_s is not None:
            self._ended.set()

    async def _leave(self) -> None:
        """As New chat does, and closing the page."""
        if self._socket is not None:
            with suppress(Exception):  # the server may have gone first
                # A browser's script need not wait; this one would have gone before it was heard.
                await self._socket.call("clear_session", timeout=_HEARD_WITHIN_S)
                await self._socket.disconnect()
            self._socket = None

    async def _read_again(self, http: aiohttp.ClientSession) -> None:
        """Notes the questions whose chat no longer has them, or their answers, in their order."""
        for chat in self.chats:
            ended = [asked for asked in chat.asked if asked.done_s is not None]
            if not ended:
                continue
            async with http.get(f"{self.url}/project/thread/{chat.thread_id}") as answered:
                steps = (await answered.json())["steps"] if answered.status == 200 else []
            kept = [step for step in steps if step["type"] in ("user_message", "assistant_message")]
            kept.sort(key=lambda step: step["createdAt"])
            said = [(step["type"], step["output"]) for step in kept]
            for number, asked in enumerate(ended):
                pair = said[2 * number : 2 * number + 2]
                held = [kind for kind, _ in pair] == ["user_message", "assistant_message"]
                if not held or pair[0][1] != asked.fact.question or bool(pair[1][1].strip()) is False:
                    self.lost_kept.append(asked.fact.question)
