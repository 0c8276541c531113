"""Decides what goes on behind the page while nobody asks: open the documents, start the engine, bring samples, warm.

One of these per process. The page opens at once and shows `sentence`; a question waits in `wait` until all stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from app.assistant import DEFAULT_KB, Assistant
from app.page.log import explain
from app.page.lookout import watch
from app.page.memory import give_back_what_is_free, set_aside_what_stays
from app.page.pace import Pace
from app.page.words import say
from app.problem import Problem, tell
from app.samples import Sample, samples
from app.settings import Settings
from app.words import Language

State = Literal["starting", "ready", "failed"]

LOOK_S = 0.5
# A section that is being read can't be interrupted, and takes seconds without a GPU: somebody who has just asked or
# added something will ask again.
QUIET_S = 20.0
STARTERS_A_SAMPLE = 2
# Python's own number (cores and four) is soon taken by people whose files are being read, and everybody's questions
# would wait for those.
THREADS = 64
# How long a thread that computes keeps the page waiting; Python's own 5 ms add up where several people search at once.
SWITCH_S = 0.0005
SAMPLES_ADDED = "samples_added"

# The engine counts the seconds of each of its steps; the page shows those since its own start.
_ITS_SECONDS = re.compile(r"[\s.…]*\d+ s$")


class Host:
    """The assistant behind the page, from "starting" to "ready" or "failed". Everything here runs on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.assistant: Assistant | None = None
        self.state: State = "starting"
        self.problem: Problem | None = None
        self.sample_ids: dict[str, str] = {}
        self.samples_settled = False
        self._since = self.ready_at = time.monotonic()
        self._has_stood = False
        self._start: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._bringing: str | None = None
        self._engine_says = ""
        self._model = settings.model_name
        self._warming: str | None = None
        self._asking = 0
        self._asked_at = -QUIET_S
        self._work: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(THREADS, "page")
        self.pace = Pace.of(settings)
        self.closing = threading.Event()
        """Set at the end: what works in a thread stops."""

    def begin(self) -> None:
        """Starts in the background, again after a failure; returns at once."""
        asyncio.get_running_loop().set_default_executor(self._threads)
        sys.setswitchinterval(SWITCH_S)
        if self._start is None or self._start.done():
            self.state, self.problem, self._since = "starting", None, time.monotonic()
            self._engine_says = ""
            self._start = asyncio.create_task(self._bring_up())
        if self._watching is None:
            self._watching = asyncio.create_task(watch(self))

    def sentence(self, language: Language) -> str:
        """What is going on, for the person who looks at the page."""
        seconds = int(time.monotonic() - self._since)
        if self.problem is not None:
            return self.problem.message
        if self.state == "ready":
            key = "ready" if self._warming is None else "warming"
            return say(key, language, model=self._model, name=self._warming)
        if self.assistant is None:
            return say("opening", language)
        if self._bringing is not None:
            return say("samples", language, name=self._bringing, seconds=seconds)
        key = "restarting" if self._has_stood else "starting"
        return say(key if self._engine_says else f"{key}_plain", language, what=self._engine_says, seconds=seconds)

    async def wait(self) -> AsyncIterator[None]:
        """Yields now and then until the engine is ready, so that the caller can show `sentence`.

        Raises:
            Problem: Why it can't start; a later call tries again.
        """
        if self.state == "failed":
            self.begin()
        while self.state == "starting":
            yield
            await asyncio.sleep(LOOK_S)
        if self.problem is not None:
            raise self.problem

    async def opened(self) -> Assistant:
        """The assistant as soon as documents can be added and listed; the engine may still be starting.

        Raises:
            Problem: Why the documents can't be opened.
        """
        while self.assistant is None:
            if self.problem is not None:
                raise self.problem
            await asyncio.sleep(0.05)
        return self.assistant

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """While somebody waits in it, and for `QUIET_S` after, no sample is read ahead."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            self._asked_at = time.monotonic()

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._asking > 0

    def chat_ended(self, chat: str) -> None:
        """The engine lets go of what this chat alone held; returns at once."""
        if self.assistant is not None and self.state == "ready":
            self.assistant.ahead.release_soon(chat)

    def filled(self) -> tuple[str, ...]:
        """The bases that hold documents, as far as they are open."""
        return self.assistant.corpus.kbs() if self.assistant is not None else ()

    def chosen(self, doc_id: str, kb: str = DEFAULT_KB) -> None:
        """Somebody may ask about this document: it is read ahead where the engine is there; returns at once."""
        if self.assistant is not None and self.state == "ready":
            self.assistant.ahead.read_soon(doc_id, kb)

    async def _quiet(self) -> None:
        while self._asking or time.monotonic() - self._asked_at < QUIET_S:
            await asyncio.sleep(LOOK_S)

    async def end(self) -> None:
        """Stops what still runs and lets the engine go."""
        self.closing.set()
        work = [task for task in (self._watching, self._start, *self._work) if task is not None]
        for task in work:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*work, return_exceptions=True)
        if self.assistant is not None:
            await self.assistant.close(linger=False)

    async def _bring_up(self) -> None:
        try:
            if self.assistant is None:
                self.assistant = await asyncio.to_thread(Assistant.open, self.settings)
                self.assistant.power.kind, self.assistant.engines.report = "page", self._report
            engine = asyncio.create_task(self.assistant.start(self._report))
            try:
                await self._bring_samples(self.assistant)
                await self._load_search(self.assistant)
                self._model = (await engine).model
            finally:
                engine.cancel()
        except Exception as error:  # Caught here for the whole start: the page shows the sentence and stays up.
            self.problem = tell(error) or Problem("unforeseen", explain(error, self.settings.home, "en"))
            self.state = "failed"
        else:
            set_aside_what_stays()
            self.state, self.ready_at, self._has_stood = "ready", time.monotonic(), True
            if not self._work:  # not at a second start
                self._work.append(asyncio.create_task(self._warm_samples(self.assistant)))
                self._work.append(asyncio.create_task(self._embed_missing(self.assistant)))
                self._work.append(asyncio.create_task(give_back_what_is_free()))

    def fail(self, code: str, sentence: str) -> None:
        """The engine is not there; the next question has it started or found."""
        self.problem, self.state = Problem(code, sentence), "failed"

    async def _load_search(self, assistant: Assistant) -> None:
        """Loads beside the engine what a search needs: torch takes seconds."""
        try:
            await asyncio.to_thread(assistant.corpus.get_ready)
        except Exception as error:  # The first question tries again, and says what is wrong.
            explain(error, self.settings.home, "en")

    async def _embed_missing(self, assistant: Assistant) -> None:
        """Goes on with what was being embedded when the last process ended."""
        try:
            await asyncio.to_thread(assistant.embed_missing, None, None, self.closing)
        except Exception as error:  # Documents are found by their words; the next start tries again.
            explain(error, self.settings.home, "en")

    def _report(self, sentence: str) -> None:
        """What the engine's start says about its work, from whatever thread."""
        self._engine_says = _ITS_SECONDS.sub("", " ".join(sentence.split()).rstrip(" .…"))

    async def _bring_samples(self, assistant: Assistant) -> None:
        """Adds the samples to a library that never had any: whoever removes them is rid of them."""
        had = self.settings.home / SAMPLES_ADDED
        listed = known_samples()
        for sample in () if had.exists() else listed:
            self._bringing = sample.title
            await asyncio.to_thread(assistant.add, sample.path, name=sample.path.name)
        self._bringing = None
        had.touch()
        names = {document.name: document.id for document in await asyncio.to_thread(assistant.documents)}
        self.sample_ids = {each.path.name: names[each.path.name] for each in listed if each.path.name in names}
        self.samples_settled = True

    async def _warm_samples(self, assistant: Assistant) -> None:
        """Reads ahead what the starters ask about, so that the first click answers at once; people go first."""
        try:
            for sample, question in _starters_in_turn():
                doc_id = self.sample_ids.get(sample.path.name)
                if doc_id is None:
                    continue
                await self._quiet()
                self._warming = sample.title
                await assistant.warm(doc_id, question=question)
                self._warming = None
        except Exception as error:  # Warming only saves time: the question itself will say what is wrong.
            explain(error, self.settings.home, "en")
        finally:
            self._warming = None


def _starters_in_turn() -> list[tuple[Sample, str]]:
    """Every document's first question, then every document's second."""
    listed = known_samples()
    return [
        (sample, sample.starters[turn].question)
        for turn in range(STARTERS_A_SAMPLE)
        for sample in listed
        if turn < len(sample.starters)
    ]


def known_samples() -> tuple[Sample, ...]:
    """The sample documents that are installed, none where they were left out."""
    try:
        return samples().documents
    except Problem:
        return ()
