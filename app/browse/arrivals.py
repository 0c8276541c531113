"""Decides what becomes of files that were sent to a page of documents: stage by stage, behind the page, to the end.

A file is shown to whoever sent it while it comes in, and for a while after. Leaving the page stops nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from app.browse.words import say
from app.page.adding import summary
from app.page.log import explain
from app.page.words import say as say_on_page

if TYPE_CHECKING:
    from app.browse.place import Place
    from app.browse.receiving import Received
    from app.page.uploads import Upload
    from app.people.member import Member
    from app.words import Language
    from ingest.add import Added

Stage = Literal["received", "text", "passages", "askable", "embedded", "warm"]
STAGES: tuple[Stage, ...] = ("received", "text", "passages", "askable", "embedded", "warm")
# Each reading process takes a core.
MOST_AT_ONCE = 2
SHOWN_AFTER_S = 600.0
_STAGE_OF: dict[str, Stage] = {"read": "text", "recognise": "text", "split": "passages", "store": "passages"}


@dataclass
class Arrival:
    """One file on its way in.

    Attributes:
        done: The stages behind it; `shares` how far those are that are under way, 0 to 1, None where that is not told.
        words: What there is to know by now, as one sentence.
    """

    person: str
    kb: str
    name: str
    state: Literal["running", "ready", "warning", "failed"] = "running"
    words: str = ""
    doc_id: str | None = None
    ended_at: float | None = None
    done: set[Stage] = field(default_factory=lambda: {"received"})
    shares: dict[Stage, float | None] = field(default_factory=dict)

    def begin(self, stage: Stage, share: float | None = None) -> None:
        """`stage` is under way, and what comes before it behind."""
        for earlier in STAGES[: STAGES.index(stage)] if stage in ("text", "passages") else ():
            self.finish(earlier)
        self.shares[stage] = share

    def finish(self, stage: Stage) -> None:
        self.shares.pop(stage, None)
        self.done.add(stage)


class Arrivals:
    """All of them, by whoever sent them. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: list[Arrival] = []
        self._reading = asyncio.Semaphore(MOST_AT_ONCE)
        self._warming = asyncio.Semaphore(1)
        self._work: set[asyncio.Task[None]] = set()

    def of(self, person: str, kb: str | None = None) -> list[Arrival]:
        """Those of `person`, the newest first; what ended a while ago is forgotten."""
        now = self._clock()
        self._all = [one for one in self._all if one.ended_at is None or now - one.ended_at < SHOWN_AFTER_S]
        return [one for one in reversed(self._all) if one.person == person and kb in (None, one.kb)]

    def take(self, place: Place, member: Member, kb: str, received: list[Received], language: Language) -> None:
        """Has files brought in, in the background; returns at once."""
        for one in received:
            arrival = Arrival(member.person.name, kb, one.name)
            self._all.append(arrival)
            if one.upload is None:
                self._end(arrival, "failed", one.problem)
            else:
                task = asyncio.create_task(self._bring(place, member, arrival, one.upload, language))
                self._work.add(task)
                task.add_done_callback(self._work.discard)

    async def settled(self) -> None:
        """Returns when nothing is on its way any more."""
        while self._work:
            await asyncio.gather(*self._work, return_exceptions=True)

    def _end(self, arrival: Arrival, state: Literal["ready", "warning", "failed"], words: str) -> None:
        arrival.state, arrival.words, arrival.ended_at = state, words, self._clock()
        arrival.shares.clear()

    async def _bring(self, place: Place, member: Member, arrival: Arrival, upload: Upload, language: Language) -> None:
        added = await self._add(place, member, arrival, upload, language)
        if added is None:
            return
        arrival.doc_id = added.document_id
        arrival.finish("text")
        arrival.finish("passages")
        if not added.sections:
            self._end(arrival, "warning", say("is_no_text", language))
            return
        arrival.finish("askable")
        arrival.words = summary(added, language)
        place.glance.again()
        _, problem = await asyncio.gather(
            self._embed(place, arrival, added.document_id), self._warm(place, arrival, added.document_id, language)
        )
        if problem:
            not_warm = say_on_page("not_warm", language, why=problem.rstrip(".。"))
            self._end(arrival, "warning", f"{arrival.words} · {not_warm}")
            return
        self._end(arrival, "ready", arrival.words)
        place.guides.make_soon(place.host, added.document_id, arrival.kb)

    async def _add(
        self, place: Place, member: Member, arrival: Arrival, upload: Upload, language: Language
    ) -> Added | None:
        def progress(stage: str, step: int, steps: int) -> None:
            if stage in _STAGE_OF:
                arrival.begin(_STAGE_OF[stage], step / steps if steps > 1 else None)

        try:
            async with self._reading:
                return await asyncio.to_thread(member.add, upload.path, arrival.kb, upload.name, progress, embed=False)
        except Exception as error:  # One file's trouble is told on its line; the others go on.
            self._end(arrival, "failed", explain(error, place.host.settings.home, language))
            return None
        finally:
            await asyncio.to_thread(upload.discard)

    async def _embed(self, place: Place, arrival: Arrival, doc_id: str) -> None:
        def progress(stage: str, step: int, steps: int) -> None:
            arrival.begin("embedded", step / steps if steps else None)

        arrival.begin("embedded")
        try:
            assistant = await place.host.opened()
            await asyncio.to_thread(assistant.embed_missing, [doc_id], progress, place.host.closing)
            arrival.finish("embedded")
        except Exception as error:  # It is found by its words; the next start goes on.
            explain(error, place.host.settings.home, "en")
            arrival.shares.pop("embedded", None)

    async def _warm(self, place: Place, arrival: Arrival, doc_id: str, language: Language) -> str:
        """Has the engine read it ahead; returns why that was not possible, or nothing."""
        arrival.begin("warm")
        try:
            async with self._warming:
                async for _ in place.host.wait():
                    pass
                assistant = await place.host.opened()
                with place.host.asking():
                    await assistant.warm(doc_id, kb=arrival.kb)
        except Exception as error:  # The document is there and can be asked; only reading ahead failed.
            return explain(error, place.host.settings.home, language)
        arrival.finish("warm")
        place.glance.again()
        return ""
