"""Decides what the engine is told beside questions: what to read ahead, what a chat holds, what has gone for good.

All of it is told in passing: nothing here starts an engine, makes anybody wait, or fails; what goes wrong is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from app.plan import Plan
from app.problem import tell
from app.reader import TOKENS_NAME, Reader, parse_name

if TYPE_CHECKING:
    from app.power import Power
    from app.settings import Settings
    from engine.base import Prefix
    from ingest.corpus import Corpus

_log = logging.getLogger(__name__)


class Ahead:
    """What one assistant tells its engine in passing. For one event loop, `gone` for any thread.

    Args:
        reader: Gives the reader of the engine that the assistant uses, None where it uses none yet.
    """

    def __init__(self, settings: Settings, corpus: Corpus, power: Power, reader: Callable[[], Reader | None]) -> None:
        self._settings = settings
        self._corpus = corpus
        self._power = power
        self._reader = reader
        self._one_by_one = asyncio.Lock()  # a chat that ends at once is bound first, then released
        self._bound: set[tuple[str, str]] = set()
        self._passing: list[Prefix] = []
        self._work: set[asyncio.Task[None]] = set()

    async def read(self, doc_ids: Iterable[str], kb: str) -> None:
        """Has the running engine read the documents' first sections, in the background.

        Does nothing without one, nor with one that can't let questions go before what it reads ahead.
        """
        with _logged("read ahead"):
            async with self._running() as reader:
                if reader is None or not reader.engine.features.handles:
                    return
                for doc_id in doc_ids:
                    planned = await asyncio.to_thread(first_section, self._corpus, doc_id, kb)
                    if planned.sections:
                        read = await asyncio.to_thread(reader.read, planned, kb)
                        await reader.engine.cache_prefix(read.prefix, wait=False)

    def read_soon(self, doc_id: str, kb: str) -> None:
        """As `read`, and returns at once."""
        self._soon(self.read([doc_id], kb))

    def bind_soon(self, session: str, prefix: Prefix) -> None:
        """Has a chat hold what it asks about, once; returns at once.

        The question itself has made the prefix known, for everybody: the chat's end then lets go of its hold alone.
        """
        reader = self._reader()
        if reader is None or not reader.engine.features.handles or (session, prefix.id) in self._bound:
            return
        self._bound.add((session, prefix.id))
        self._soon(self._bind(reader, session, prefix))

    async def release(self, session: str) -> None:
        """The chat has ended."""
        held = {(name, handle) for name, handle in self._bound if name == session}
        self._bound -= held
        reader = self._reader()
        if held and reader is not None:
            with _logged("release"):
                async with self._one_by_one:
                    await reader.engine.release_session(session)

    def release_soon(self, session: str) -> None:
        """As `release`, and returns at once."""
        self._soon(self.release(session))

    def engine_ended(self) -> None:
        """The next engine knows nothing of what chats hold."""
        self._bound.clear()

    def let_go_at_end(self, prefix: Prefix) -> None:
        """Nobody will ask about it again once the assistant is closed."""
        self._passing.append(prefix)

    def gone(self, kb: str, file: str) -> None:
        """Nothing may remain of a document that was removed: neither ids, nor names, nor prefixes. Blocking."""
        self._let_go(kb, file)
        with _logged("forget"):
            self._power.forget(_of_file(kb, file))

    def replaced(self, kb: str, file: str, kept_sections: int = 0) -> None:
        """Another text has come in the document's place, and nothing of the old one may remain. Blocking.

        Its name is remembered: the next receipt says that the document was changed.

        Args:
            kept_sections: So many sections, from the first on, say what they said: they stay warm.
        """
        self._let_go(kb, file, kept_sections)

    def _let_go(self, kb: str, file: str, kept_sections: int = 0) -> None:
        from app.guide_store import keep_guides_of
        from engine.tokens import keep_only

        with _logged("free"):
            ids = {document.id for document in self._corpus.documents(None)}
            keep_guides_of(self._settings.home, ids)
            keep_only(self._settings.home / TOKENS_NAME, ids)
            self._power.free(kb, _of_file(kb, file, kept_sections))

    async def close(self) -> None:
        """Ends what is still being told."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        reader = self._reader()
        with _logged("free"):
            while reader is not None and self._passing:
                await reader.engine.free_prefix(self._passing.pop())

    async def _bind(self, reader: Reader, session: str, prefix: Prefix) -> None:
        with _logged("bind"):
            async with self._one_by_one:
                await reader.engine.cache_prefix(prefix, session=session, wait=False)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Reader | None]:
        """The assistant's reader, or one for this moment where an engine runs."""
        reader = self._reader()
        if reader is not None:
            yield reader
            return
        joined = await self._power.join()
        if joined is None:
            yield None
            return
        engine, tokenizer = joined
        try:
            reader = await asyncio.to_thread(Reader.open, self._settings, self._corpus, engine, tokenizer)
            try:
                yield reader
            finally:
                await asyncio.to_thread(reader.close)
        finally:
            await engine.close()

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def first_section(corpus: Corpus, doc_id: str, kb: str) -> Plan:
    """What is read of a document before anybody has asked; without sections where it has no text."""
    document = corpus.resolve_document(doc_id, kb)
    sections = tuple(corpus.sections(document.id))
    return Plan(document, sections[:1], len(sections) == 1, 1)


def _of_file(kb: str, file: str, kept_sections: int = 0) -> Callable[[str], bool]:
    """Whether a prefix's name is one of the file's, and reads more than its first `kept_sections`."""

    def is_meant(name: str) -> bool:
        parsed = parse_name(name)
        return parsed is not None and parsed[:2] == (kb, file) and max(parsed[2]) > kept_sections

    return is_meant


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """What fails in it only saves time or room: the question itself will say what is wrong."""
    try:
        yield
    except Exception as error:
        problem = tell(error)
        _log.warning("The engine was not told to %s: %s", what, problem.message if problem else repr(error))
