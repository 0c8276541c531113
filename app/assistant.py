"""THE TWO PATHS: `add` takes a document in, `ask` answers a question. The command line and the page call these.

    add   app/assistant -> ingest/corpus
    ask   app/finder (app/plan, ingest/corpus) -> app/reader (engine/prompt) -> engine -> app/cite -> Answer

Adding, listing and searching never start an engine; `ask` and `warm` do, once. Nothing heavy runs on the event loop.
What the engine is told in passing (read this ahead, that has gone) stands in app/ahead.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.ahead import Ahead, first_section
from app.answer import Answer, Event, Words
from app.conversation import Conversation
from app.engines import ENDING, Engines, Report
from app.finder import Finder
from app.plan import Plan, is_well_found
from app.put import put
from app.question import checked
from app.reader import Reader, file_of
from app.settings import Settings
from app.words import language_of, nothing_relevant
from engine.base import Engine, EngineError, Handle, Sampling

if TYPE_CHECKING:
    from app.power import EngineStatus, Power
    from engine.view import CacheView
    from ingest.add import Added
    from ingest.corpus import Corpus
    from ingest.naming import FileToAdd
    from ingest.scope import Filters
    from ingest.search import Hit
    from ingest.store import StoredDocument

DEFAULT_KB = "default"
# No knowledge base can bear such a name.
FIRST_REQUEST = "/first request"
# An answer in other words, which still keeps to the text.
AFRESH_TEMPERATURE = 0.7


class Assistant:
    """One home's documents, and the engine once it is needed. For one event loop; `close` it at the end.

    Args:
        power: What finds or starts the engine; `app.power` by default, a fake in tests.
    """

    def __init__(self, settings: Settings, corpus: Corpus, power: Power) -> None:
        self.settings = settings
        self.corpus = corpus
        self.power = power
        self.ahead = Ahead(settings, corpus, power, lambda: self.engines.now)
        self.engines = Engines(settings, corpus, power, self.ahead.engine_ended)
        self._finder = Finder(settings, corpus, power, lambda: self.engines.now)
        power.knows = self._knows

    @classmethod
    def open(cls, settings: Settings) -> Assistant:
        """Opens the home's documents. Blocking (a fraction of a second); starts no engine."""
        from app.power import Power
        from ingest.corpus import Corpus

        return cls(settings, Corpus.open(settings.home, settings.ingest), Power(settings))

    # ------------------------------------------------------------------ documents (blocking: call them in a thread)

    def add(
        self,
        path: Path,
        *,
        kb: str = DEFAULT_KB,
        name: str | None = None,
        tags: Sequence[str] = (),
        progress: Callable[[str, int, int], None] | None = None,
        embed: bool = True,
    ) -> Added:
        """Takes one file in: read, split, stored, with these tags more, and, with `embed`, found by meaning too."""
        added = self.corpus.add(path, kb=kb, name=name, progress=progress, embed=embed)
        self._tag(added, kb, tags)
        self._tell_replaced(added, kb)
        return added

    def add_all(
        self,
        files: Sequence[FileToAdd],
        *,
        kb: str = DEFAULT_KB,
        tags: Sequence[str] = (),
        progress: Callable[[str, str, int, int], None] | None = None,
    ) -> Iterator[tuple[FileToAdd, Added | Exception]]:
        """Takes many files in, several at once; gives each in order once it can be asked, or why it can't be read.

        It returns when all is found by meaning too.
        """
        for file, added in self.corpus.add_all(files, kb=kb, progress=progress):
            if not isinstance(added, Exception):
                self._tag(added, kb, tags)
                self._tell_replaced(added, kb)
            yield file, added

    def embed_missing(
        self,
        doc_ids: Sequence[str] | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Has documents (None: all) found by meaning too: what is new, and what a killed process left."""
        self.corpus.embed_missing(doc_ids, progress, stop)

    def _tag(self, added: Added, kb: str, tags: Sequence[str]) -> None:
        if tags:
            self.corpus.change_tags(added.document_id, kb, add=tags)

    def _tell_replaced(self, added: Added, kb: str) -> None:
        name = added.former_name
        if name is None:
            return
        if self.corpus.has_file(name, kb):
            kept = added.difference.kept_sections if added.difference is not None else 0
            self.ahead.replaced(kb, name, kept)
        else:
            self.ahead.gone(kb, name)

    def _knows(self, name: str) -> bool:
        """Whether the document that a prefix's name is of is there, or it is of none."""
        file = file_of(name)
        if file is None:
            return True
        with contextlib.suppress(Exception):  # closed by now: what is left then `check` finds
            return self.corpus.has_file(file[1], file[0])
        return True

    def documents(self, kb: str = DEFAULT_KB) -> list[StoredDocument]:
        return list(self.corpus.documents(kb))

    def remove(self, doc_id: str, kb: str = DEFAULT_KB) -> None:
        """After this returns nothing finds the document; an engine that runs has let go of it."""
        names = [document.name for document in self.corpus.documents(kb) if document.id == doc_id]
        self.corpus.remove(doc_id, kb)
        for name in names:
            self.ahead.gone(kb, name)

    def search(
        self,
        question: str,
        *,
        kb: str = DEFAULT_KB,
        doc_id: str | None = None,
        k: int = 10,
        filters: Filters | None = None,
    ) -> list[Hit]:
        """The best `k` places, best first; where a question's own words find little, by dictionary too."""
        doc_ids = None if doc_id is None else [doc_id]
        look = partial(self.corpus.places, checked(question), kb=kb, doc_ids=doc_ids, k=k, filters=filters)
        hits = look()
        if self.settings.search_help != "off" and not is_well_found(hits):
            hits = look(across=True)
        return list(hits)

    def find(self, words: str, kb: str = DEFAULT_KB) -> StoredDocument:
        """The document that `words` (an id, the beginning of one, a file name or a title) mean."""
        return self.corpus.resolve_document(words, kb)

    # ------------------------------------------------------------------ questions

    async def start(self, report: Report | None = None) -> Engine:
        """Finds or starts the engine, once; later calls return it at once, or the next one where it has ended.

        Raises:
            EngineError: One sentence: no weights, port taken, out of memory, not ready in time.
        """
        return (await self.engines.ready(report)).engine

    async def ask(
        self,
        question: str,
        *,
        kb: str = DEFAULT_KB,
        doc_id: str | None = None,
        filters: Filters | None = None,
        conversation: Conversation | None = None,
        report: Report | None = None,
        apart: str = "",
        session: str | None = None,
        afresh: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """Yields `Reading`, `Words`..., and last an `Answer` (an `Answer` alone where nothing relevant was found).

        Closing the iterator (`aclose`) aborts in the engine; the conversation then keeps the stopped answer's raw ids.

        Args:
            filters: Which documents and pages may be searched; None: all.
            apart: A name for a cache of its own, so that a measurement's first question is cold whatever went before;
                it ends with the assistant.
            session: The chat's name, which holds what was read until `ahead.release`.
            afresh: The words are drawn, so that the same question may be answered in other words.

        Raises:
            Problem, EngineError, IngestError: One sentence each.
        """
        question = checked(question)
        began_s = time.perf_counter()
        planned = await self._finder.plan(
            question,
            partial(self.engines.ready, report),
            kb=kb,
            doc_id=doc_id,
            filters=filters,
            conversation=conversation,
        )
        if not planned.sections:
            said = nothing_relevant(planned.num_documents, language_of(question))
            yield Answer(said, True, (), None, None)
            return
        search_ms = 1000 * (time.perf_counter() - began_s)
        reader = await self.engines.ready(report)
        asked = self.put(
            reader, planned, question, kb=kb, conversation=conversation, apart=apart, session=session, afresh=afresh
        )
        async with aclosing(asked) as events:
            async for event in events:
                yield replace(event, search_ms=search_ms) if isinstance(event, Answer) else event

    async def put(
        self,
        reader: Reader,
        planned: Plan,
        question: str,
        *,
        kb: str,
        conversation: Conversation | None = None,
        apart: str = "",
        session: str | None = None,
        afresh: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """As `ask`, for what is already planned.

        Where an engine that was started here ends before its first word, the next one is asked: a second `Reading`.

        Args:
            planned: With sections.
        """
        if reader is not self.engines.now:  # its engine has ended, and another one is in use
            reader = await self.engines.ready()
        has_words = False
        sampling = Sampling(max_tokens=self.settings.answer_tokens, temperature=AFRESH_TEMPERATURE if afresh else 0.0)

        def once(reader: Reader) -> AsyncGenerator[Event, None]:
            return put(reader, planned, question, kb, conversation, apart, session, sampling, self.ahead)

        try:
            async with aclosing(once(reader)) as events:
                async for event in events:
                    has_words = has_words or isinstance(event, Words)
                    yield event
            return
        except EngineError as error:
            if has_words or error.code not in ENDING or not await self.engines.has_lost(reader):
                raise
        async with aclosing(once(await self.engines.reconnect(reader))) as events:
            async for event in events:
                yield event

    async def warm(
        self, doc_id: str, question: str | None = None, kb: str = DEFAULT_KB, report: Report | None = None
    ) -> Handle | None:
        """Reads the document's first section, or what `question` needs, ahead of its first question; starts the engine.

        Returns None where the document has no text.
        """
        if question is not None:
            planned = await self._finder.plan(question, partial(self.engines.ready, report), kb=kb, doc_id=doc_id)
        else:
            planned = await asyncio.to_thread(first_section, self.corpus, doc_id, kb)
        if not planned.sections:
            return None
        reader = await self.engines.ready(report)
        read = await asyncio.to_thread(reader.read, planned, kb)
        return await reader.engine.cache_prefix(read.prefix)

    async def warm_engine(self) -> None:
        """Has the engine answer a small request, so that its own first steps are behind it. Caches nothing of use."""
        reader = await self.engines.ready()
        prefix = reader.layout.prefix((), FIRST_REQUEST)
        await reader.engine.warm(prefix)  # its first long step
        await reader.engine.warm(prefix)  # its first short one, as after a cached prefix
        await reader.engine.free_prefix(prefix)

    async def plan(
        self,
        question: str,
        *,
        kb: str = DEFAULT_KB,
        doc_id: str | None = None,
        filters: Filters | None = None,
        conversation: Conversation | None = None,
        report: Report | None = None,
    ) -> Plan:
        """What `ask` would read for the question.

        Raises:
            Problem, EngineError, IngestError: One sentence each.
        """
        start = partial(self.engines.ready, report)
        return await self._finder.plan(
            checked(question), start, kb=kb, doc_id=doc_id, filters=filters, conversation=conversation
        )

    async def reader(self, report: Report | None = None) -> Reader:
        """What lays out prompts for the engine in use, which is found or started first.

        Raises:
            EngineError: As `start`.
        """
        return await self.engines.ready(report)

    @property
    def features_off(self) -> str:
        """What the engine in use can't do beside answering, as one sentence; empty where nothing is missing."""
        reader = self.engines.now
        return reader.engine.features.off if reader is not None else ""

    def engine_status(self) -> EngineStatus:
        """What runs; starts nothing. Blocking."""
        return self.power.status()

    def cache(self) -> CacheView | None:
        """What the engine holds, in its own words; None where none is ready, or it does not tell. Blocking.

        Raises:
            EngineError: `engine_unreachable`, `engine_failed`.
        """
        return self.power.cache()

    async def close(self, linger: bool = True) -> None:
        """Lets the engine go: it stays for `keep_alive_s` if `linger`, else one started here stops at once."""
        await self.ahead.close()
        await self.engines.close(linger)
        await asyncio.to_thread(self.corpus.close)
