"""Decides when the language model helps to search, for how long it is waited for, and keeps what it said.

A search that its question's own words answer well needs no help. Help is never waited for longer than set, and where it
fails the search goes on without: it can only add wordings to search with, beside the question itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from cachetools import LRUCache

from app.wording import Wording, as_one, in_documents_words, translated, usable, words_listed
from engine.base import Delta, Engine, EngineError, Finish, Sampling
from ingest.language import language_of

if TYPE_CHECKING:
    from engine.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

# A translation and two wordings for each of a few hundred questions: some 100 kB.
MOST_KEPT = 1_024


@dataclass(frozen=True)
class _Asked:
    """One wording of one question: what `usable` has to hold against what comes back."""

    wording: Wording
    question: str
    language: str

    def key(self, model: str) -> str:
        """Names the result without holding the question."""
        told = "\0".join([model, self.wording.name, self.wording.instructions, self.question])
        return hashlib.sha256(told.encode()).hexdigest()


class SearchHelp:
    """Asks an engine to say questions again. For one event loop.

    Args:
        timeout_s: The longest that a search waits for it.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._kept: LRUCache[str, str] = LRUCache(MOST_KEPT)

    async def wordings(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        question: str,
        *,
        kb: str,
        languages: Sequence[str],
        earlier: Sequence[str] = (),
        heard: Callable[[str], object] = lambda text: None,
    ) -> tuple[str, ...]:
        """Further wordings of `question`: in the other `languages` of what is searched, and in other words.

        Args:
            kb: Whose question it is: what the engine caches of it is shared with no other base.
            earlier: The questions that it leans on, oldest first.
            heard: Called with each wording as soon as it is there, while others are still waited for.
        """
        whole = as_one(earlier, question)
        asked = list(self._wanted(whole, languages))
        if not asked:
            return ()

        async def said_by_model(one: _Asked) -> str | None:
            text = usable(await self._said(engine, tokenizer, one, kb), one.question, one.language)
            if text is not None:
                heard(text)
            return text

        tasks = [asyncio.create_task(said_by_model(one)) for one in asked]
        try:
            await asyncio.wait(tasks, timeout=self._timeout_s)
        finally:
            for task in tasks:
                task.cancel()  # the engine stops at once what nobody waits for
            said = await asyncio.gather(*tasks, return_exceptions=True)
        texts = []
        for one, result in zip(asked, said, strict=True):
            if isinstance(result, str):
                texts.append(result)
            elif isinstance(result, EngineError):
                _log.info("The search goes on without %s: %s", one.wording.name, result.message)
            elif result is not None and not isinstance(result, asyncio.CancelledError):
                raise result
        return tuple(texts)

    async def _said(self, engine: Engine, tokenizer: Tokenizer, asked: _Asked, kb: str) -> str:
        from engine.prompt import Layout

        key = asked.key(engine.model)
        if (kept := self._kept.get(key)) is not None:
            return kept
        layout = Layout(tokenizer, asked.wording.instructions)
        # No base's name holds a slash.
        prefix = asked.wording.prefix(layout, f"{kb}/search")
        sampling = Sampling(max_tokens=asked.wording.max_tokens, stop=("\n",))
        text = ""
        stream = cast(
            "AsyncGenerator[Delta | Finish, None]", engine.generate(layout.ask(prefix, asked.question), sampling)
        )
        async with aclosing(stream):
            async for piece in stream:
                if isinstance(piece, Delta):
                    text += piece.text
        self._kept[key] = text
        return text

    def _wanted(self, question: str, languages: Sequence[str]) -> Iterator[_Asked]:
        own = language_of(question)
        for language in languages:
            ways = (in_documents_words, words_listed) if language == own else (translated,)
            for way in ways:
                wording = way(language)
                if wording is not None:
                    yield _Asked(wording, question, language)
