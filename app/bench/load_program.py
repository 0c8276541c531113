"""Decides how a simulated person uses the API: the same questions, streamed, one connection each."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from app.bench.load_facts import Fact
from app.bench.load_home import Account
from app.bench.load_person import MOST_WAIT_S, Asked


class ProgramPerson:
    """One person's program."""

    def __init__(self, url: str, account: Account, pause: Callable[[], float], wanted: Callable[[], Fact]) -> None:
        self.url = url
        self.account = account
        self.asked: list[Asked] = []
        self.lost_kept: list[str] = []
        self._pause = pause
        self._wanted = wanted

    async def work(self, until: float) -> None:
        """Asks until the monotonic clock says `until`."""
        import aiohttp

        headers = {"Authorization": f"Bearer {self.account.key}"}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(MOST_WAIT_S)) as http:
            while time.monotonic() < until:
                await asyncio.sleep(min(self._pause(), max(0.0, until - time.monotonic())))
                if time.monotonic() >= until:
                    break
                asked = Asked(self._wanted(), "api", time.monotonic())
                self.asked.append(asked)
                try:
                    await self._ask(http, asked)
                except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                    asked.problem = repr(error)

    async def _ask(self, http: Any, asked: Asked) -> None:
        wanted = {
            "model": self.account.kb,
            "messages": [{"role": "user", "content": asked.fact.question}],
            "stream": True,
        }
        streamed = ""
        async with http.post(f"{self.url}/v1/chat/completions", json=wanted) as answered:
            answered.raise_for_status()
            async for line in answered.content:
                told = line.decode().removeprefix("data: ").strip()
                if not told or told == "[DONE]":
                    continue
                piece = json.loads(told)
                if "error" in piece:
                    asked.problem = piece["error"]["message"]
                    return
                words = piece["choices"][0]["delta"].get("content") or ""
                streamed += words
                if words and asked.first_s is None:
                    asked.first_s = time.monotonic() - asked.at
                if piece["choices"][0]["finish_reason"]:
                    asked.done_s = time.monotonic() - asked.at
                    said = " ".join(piece["answer"].split())
                    asked.whole = asked.fact.sentence.rstrip(".") in said
                    asked.in_order = asked.fact.sentence.startswith(" ".join(streamed.split()).rstrip("."))
