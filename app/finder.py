"""Decides how what is read for a question is found: by its own words, and where they find little with help.

A dictionary costs milliseconds and says the question in the other languages of the base. The model, where an engine
runs, says it in those languages, in a document's words where only words are compared, and in what is left of its time
weighs what is then found.

No engine is started for that alone, unless "always" was set; one that is to answer anyway is started a little earlier.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from app.plan import Plan, plan
from app.question import leans
from app.search_help import SearchHelp
from app.weighing import Weighing
from app.weights import known, looking_up, noting
from app.wording import as_one
from engine.base import Engine, EngineError

if TYPE_CHECKING:
    from app.conversation import Conversation
    from app.power import Power
    from app.reader import Reader
    from app.settings import Settings
    from engine.tokenizer import Tokenizer
    from ingest.corpus import Corpus
    from ingest.scope import Filters

_log = logging.getLogger(__name__)


class Finder:
    """Plans what is read. For one event loop.

    Args:
        reader: Gives the reader of the engine in use, None where there is none yet.
    """

    def __init__(self, settings: Settings, corpus: Corpus, power: Power, reader: Callable[[], Reader | None]) -> None:
        self._settings = settings
        self._corpus = corpus
        self._power = power
        self._reader = reader
        self._help = SearchHelp(settings.search_help_s)
        self._weighing = Weighing()

    async def plan(
        self,
        question: str,
        start: Callable[[], Awaitable[object]],
        *,
        kb: str,
        doc_id: str | None = None,
        filters: Filters | None = None,
        conversation: Conversation | None = None,
    ) -> Plan:
        """As `app.plan.plan`.

        Args:
            start: Makes that there is an engine in use.

        Raises:
            Problem, EngineError, IngestError: One sentence each.
        """
        choose = partial(
            plan,
            self._corpus,
            question,
            kb=kb,
            doc_id=doc_id,
            filters=filters,
            conversation=conversation,
            max_sections=self._settings.max_sections,
        )
        planned = await asyncio.to_thread(choose)
        switch = self._settings.search_help
        always = switch == "always"
        if switch == "off" or (planned.certain and not always):
            return planned
        if switch == "dictionary":
            return await asyncio.to_thread(choose, across=True)
        if self._reader() is None:
            planned = await asyncio.to_thread(choose, across=True)
            if planned.sections or always:
                await start()
        async with self._at_hand() as at_hand:
            if at_hand is None:
                return planned
            earlier = conversation.earlier_questions() if conversation is not None and leans(question) else ()
            whole = as_one(earlier, question)
            to_say = partial(self._corpus.languages_to_say, kb=kb, doc_ids=None if doc_id is None else [doc_id])
            languages = await asyncio.to_thread(to_say, whole)
            until = asyncio.get_running_loop().time() + self._settings.search_help_s
            also = await self._help.wordings(
                *at_hand, question, kb=kb, languages=languages, earlier=earlier, heard=self._prepare_soon
            )
            found: list[str] = []
            planned = await asyncio.to_thread(choose, also=also, across=True, weigh=noting(found))
            left_s = until - asyncio.get_running_loop().time()
            weights = await self._weighing.weights(*at_hand, whole, found, kb=kb, timeout_s=left_s)
        by_text = known(found, weights)
        return (
            await asyncio.to_thread(choose, also=also, across=True, weigh=looking_up(by_text)) if by_text else planned
        )

    def _prepare_soon(self, wording: str) -> None:
        """Has a wording embedded while the engine is still at the next; what fails is told by the search itself."""
        preparing = asyncio.ensure_future(asyncio.to_thread(self._corpus.prepare, wording))
        preparing.add_done_callback(lambda done: done.cancelled() or done.exception())

    @asynccontextmanager
    async def _at_hand(self) -> AsyncGenerator[tuple[Engine, Tokenizer] | None, None]:
        """The engine in use, else one that runs, for a word in passing; None where there is none."""
        reader = self._reader()
        if reader is not None:
            yield reader.engine, reader.layout.tokenizer
            return
        joined = None
        try:
            joined = await self._power.join()
        except EngineError as error:
            _log.info("The search goes on without the engine: %s", error.message)
        try:
            yield joined
        finally:
            if joined is not None:
                await joined[0].close()
