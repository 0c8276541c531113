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
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from app.ahead import Ahead, first_section
from app.answer import Answer, Event, Words
from app.cite import cite
from app.conversation import Conversation, Turn
from app.finder import Finder
from app.plan import Plan, is_well_found
from app.question import checked, leans
from app.reader import Read, Reader, file_of
from app.settings import Settings
from app.words import beginning, language_of, not_in_reading, nothing_relevant, unsupported
from engine.base import Delta, Engine, EngineError, Finish, Handle, Prompt, Sampling

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
# What an engine says, or is said of it, while it ends.
ENDING = frozenset({"engine_unreachable", "engine_failed"})
# An engine's connections may break a moment before it is seen to have ended.
ENDS_S = 1.0

Report = Callable[[str], None]
"""Takes one sentence about what is going on ("Loading the model ...")."""


class Assistant:
    """One home's documents, and the engine once it is needed. For one event loop; `close` it at the end.

    Args:
        power: What finds or starts the engine; `app.power` by default, a fake in tests.
    """

    def __init__(self, settings: Settings, corpus: Corpus, power: Power) -> None:
        self.settings = settings
        self.corpus = corpus
        self.power = power
        self._reader: Reader | None = None
        self._finder = Finder(settings, corpus, power, lambda: self._reader)
        self._starting = asyncio.Lock()
        self.ahead = Ahead(settings, corpus, power, lambda: self._reader)
        self.report: Report = lambda sentence: None
        """Takes what is going on where a question's own `report` is not given."""
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
        return (await self._ready(report)).engine

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
        planned = await self._finder.plan(
            question, partial(self._ready, report), kb=kb, doc_id=doc_id, filters=filters, conversation=conversation
        )
        if not planned.sections:
            said = nothing_relevant(planned.num_documents, language_of(question))
            yield Answer(said, True, (), None, None)
            return
        reader = await self._ready(report)
        asked = self.put(
            reader, planned, question, kb=kb, conversation=conversation, apart=apart, session=session, afresh=afresh
        )
        async with aclosing(asked) as events:
            async for event in events:
                yield event

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
        if reader is not self._reader:  # its engine has ended, and another one is in use
            reader = await self._ready()
        has_words = False
        once = partial(self._put, planned, question, kb, conversation, apart, session, afresh)
        try:
            async with aclosing(once(reader)) as events:
                async for event in events:
                    has_words = has_words or isinstance(event, Words)
                    yield event
            return
        except EngineError as error:
            if has_words or error.code not in ENDING or not await self._has_lost(reader):
                raise
        async with aclosing(once(await self.reconnect(reader))) as events:
            async for event in events:
                yield event

    async def _put(
        self,
        planned: Plan,
        question: str,
        kb: str,
        conversation: Conversation | None,
        apart: str,
        session: str | None,
        afresh: bool,
        reader: Reader,
    ) -> AsyncGenerator[Event, None]:
        earlier = conversation.earlier_questions() if conversation is not None and leans(question) else ()
        read, prompt, history = await asyncio.to_thread(_laid_out, reader, planned, question, kb, apart, conversation)
        if apart:
            self.ahead.let_go_at_end(read.prefix)
        yield read.reading
        text, ids, finish = "", list[int](), None
        try:
            async with aclosing(streamed(reader.engine, prompt, self._sampling(afresh))) as stream:
                async for piece in stream:
                    if isinstance(piece, Finish):
                        finish = piece
                        break
                    text += piece.text
                    ids += piece.token_ids
                    yield Words(piece.text)
        finally:
            if conversation is not None and (text or ids or finish):
                # An engine that reports ids only at its end leaves a stopped answer as words alone.
                output = finish.token_ids if finish else ids or reader.layout.tokenizer.encode_text(text)
                closed = reader.layout.history_after(prompt, output)[len(history) :]
                conversation.add(Turn(question, closed, read.doc_id, read.section_numbers, kb))
        assert finish is not None  # the protocol: Finish comes last, exactly once
        if session is not None:
            self.ahead.bind_soon(session, read.prefix)
        yield await asyncio.to_thread(checked_answer, question, text, read, finish, earlier)

    async def warm(
        self, doc_id: str, question: str | None = None, kb: str = DEFAULT_KB, report: Report | None = None
    ) -> Handle | None:
        """Reads the document's first section, or what `question` needs, ahead of its first question; starts the engine.

        Returns None where the document has no text.
        """
        if question is not None:
            planned = await self._finder.plan(question, partial(self._ready, report), kb=kb, doc_id=doc_id)
        else:
            planned = await asyncio.to_thread(first_section, self.corpus, doc_id, kb)
        if not planned.sections:
            return None
        reader = await self._ready(report)
        read = await asyncio.to_thread(reader.read, planned, kb)
        return await reader.engine.cache_prefix(read.prefix)

    async def warm_engine(self) -> None:
        """Has the engine answer a small request, so that its own first steps are behind it. Caches nothing of use."""
        reader = await self._ready()
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
        start = partial(self._ready, report)
        return await self._finder.plan(
            checked(question), start, kb=kb, doc_id=doc_id, filters=filters, conversation=conversation
        )

    async def reader(self, report: Report | None = None) -> Reader:
        """What lays out prompts for the engine in use, which is found or started first.

        Raises:
            EngineError: As `start`.
        """
        return await self._ready(report)

    async def reconnect(self, lost: Reader, report: Report | None = None) -> Reader:
        """As `reader`, once `lost`'s engine no longer answers; an engine that was started here is started again.

        Raises:
            EngineError: As `start`.
        """
        async with self._starting:
            if self._reader is lost:
                await self._let_go(lost)
        return await self._ready(report)

    async def let_go(self) -> None:
        """Whoever asks next looks for the engine anew."""
        async with self._starting:
            if self._reader is not None:
                await self._let_go(self._reader)

    async def _has_lost(self, reader: Reader) -> bool:
        """Whether `reader`'s engine is not the one in use any more, or has ended or is about to."""
        return self._reader is not reader or await asyncio.to_thread(self.power.has_ended, ENDS_S)

    async def _let_go(self, lost: Reader) -> None:
        self._reader = None
        self.ahead.engine_ended()
        await asyncio.to_thread(lost.close)
        await self.power.release(linger=True)

    @property
    def features_off(self) -> str:
        """What the engine in use can't do beside answering, as one sentence; empty where nothing is missing."""
        return self._reader.engine.features.off if self._reader is not None else ""

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
        if self._reader is not None:
            await asyncio.to_thread(self._reader.close)
            self._reader = None
        await self.power.release(linger)
        await asyncio.to_thread(self.corpus.close)

    async def _ready(self, report: Report | None = None) -> Reader:
        async with self._starting:
            if self._reader is not None and self.power.has_ended():
                await self._let_go(self._reader)
            if self._reader is None:
                engine, tokenizer = await self.power.connect(report or self.report)
                self._reader = await asyncio.to_thread(Reader.open, self.settings, self.corpus, engine, tokenizer)
            return self._reader

    def _sampling(self, afresh: bool) -> Sampling:
        return Sampling(max_tokens=self.settings.answer_tokens, temperature=AFRESH_TEMPERATURE if afresh else 0.0)


def _laid_out(
    reader: Reader, planned: Plan, question: str, kb: str, apart: str, conversation: Conversation | None
) -> tuple[Read, Prompt, tuple[int, ...]]:
    read = reader.read(planned, kb, apart)
    return read, *reader.ask(read, question, conversation)


def streamed(engine: Engine, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
    """Every engine's stream can be closed before its end, though the protocol promises no more than iteration."""
    return cast("AsyncGenerator[Delta | Finish, None]", engine.generate(prompt, sampling))


def checked_answer(question: str, text: str, read: Read, finish: Finish, earlier: Sequence[str] = ()) -> Answer:
    """The checked answer. Blocking: an abstention in our words, or the model's words with the citations that hold.

    Args:
        earlier: The questions that this one leans on, oldest first.
    """
    from engine.refusal import is_refusal

    language = language_of(question)
    abstention = not_in_reading(read.reading, read.num_searched, language)
    if is_refusal(text) or not text.strip():
        return Answer(abstention, True, (), finish.receipt, read.reading, finish.token_ids)
    cited = cite(text, question, read.sources(), earlier)
    if not cited.citations:
        words = beginning(cited.text)
        said = unsupported(words, abstention, language)
        return Answer(said, True, (), finish.receipt, read.reading, finish.token_ids, abstention, words)
    return Answer(cited.text, False, cited.citations, finish.receipt, read.reading, finish.token_ids)
