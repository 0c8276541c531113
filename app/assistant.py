"""THE TWO PATHS: `add` takes a document in, `ask` answers a question about it. The command line and the page call these.

Adding, listing and searching never start an engine; `ask` and `warm` do, once. Nothing heavy runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.answer import Event
from app.conversation import Conversation
from app.settings import Settings
from engine.base import Engine, Receipt

DEFAULT_KB = "default"

Report = Callable[[str], None]
"""Takes one sentence about what is going on ("Loading the model ...")."""


@dataclass(frozen=True)
class EngineStatus:
    """What is known of the engine without starting one. None where there is none, or it did not say."""

    running: bool
    url: str | None = None
    model: str | None = None
    pid: int | None = None
    uptime_s: float | None = None
    hit_rate: float | None = None


class Assistant:
    """One home's documents, and the engine once it is needed."""

    def __init__(self, settings: Settings, corpus: Any, engine: Engine | None = None) -> None:
        self.settings = settings
        self.corpus = corpus
        self._engine = engine
        self._starting = asyncio.Lock()

    @classmethod
    def open(cls, settings: Settings) -> Assistant:
        """Opens the home's documents. Blocking (a fraction of a second); starts no engine."""
        raise NotImplementedError

    def add(
        self,
        path: Path,
        *,
        kb: str = DEFAULT_KB,
        name: str | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Any:
        """Takes one file in and returns `ingest`'s `Added`. Blocking: call it in a thread."""
        raise NotImplementedError

    def documents(self, kb: str = DEFAULT_KB) -> list[Any]:
        raise NotImplementedError

    def remove(self, doc_id: str, kb: str = DEFAULT_KB) -> None:
        """After this returns nothing finds the document."""
        raise NotImplementedError

    async def start(self, report: Report | None = None) -> Engine:
        """Finds or starts the engine, once; later calls return it at once."""
        raise NotImplementedError

    def ask(
        self, question: str, *, kb: str = DEFAULT_KB, doc_id: str | None = None, conversation: Conversation | None = None
    ) -> AsyncIterator[Event]:
        """Yields `Reading`, `Words`..., and last an `Answer` (an `Answer` alone where nothing relevant was found).

        Closing the iterator (`aclose`) aborts in the engine; the conversation then keeps the stopped answer's raw ids.

        Raises:
            Problem, EngineError: One sentence each.
        """
        raise NotImplementedError

    async def warm(self, doc_id: str, question: str | None = None, kb: str = DEFAULT_KB) -> Receipt | None:
        """Reads the document's first section, or the one that `question` needs, ahead of its first question."""
        raise NotImplementedError

    async def engine_status(self) -> EngineStatus:
        raise NotImplementedError

    async def close(self, linger: bool = True) -> None:
        """Lets the engine go: it stays for `keep_alive_s` if `linger`, else an engine started here stops."""
        raise NotImplementedError
