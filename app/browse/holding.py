"""Decides how an owner has the engine keep a document warm, and how they let it go again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.holding import hold, let_go
from app.problem import Problem

if TYPE_CHECKING:
    from app.browse.visit import Visit
    from app.reader import Reader
    from ingest.store import StoredDocument


async def pin(visit: Visit, document: StoredDocument) -> None:
    """Has all of it kept, and read in the background.

    Raises:
        Problem: `cannot_hold`, `engine_starting`.
        EngineError: `pins_full`, `does_not_fit`: what came before is kept.
    """
    reader = await _reader(visit)
    sections = await asyncio.to_thread(visit.member.assistant.corpus.sections, document.id)
    async for _ in hold(reader, document, sections, pin=True, wait=False):
        pass


async def free(visit: Visit, document: StoredDocument) -> None:
    """Nothing of it is found cached any more, nor kept.

    Raises:
        Problem: `cannot_hold`, `engine_starting`.
    """
    await _reader(visit)
    await asyncio.to_thread(let_go, visit.member.assistant.power, document)


async def _reader(visit: Visit) -> Reader:
    if visit.place.host.state != "ready":
        raise Problem("engine_starting", visit.place.host.sentence(visit.language))
    reader = await visit.member.assistant.reader()
    if not reader.engine.features.handles:
        raise Problem("cannot_hold", visit.say("cannot_hold"))
    return reader
