"""Decides how an owner has the engine keep a document warm, and how they let it go again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.plan import Plan
from app.problem import Problem
from app.reader import parse_name

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
    for section in await asyncio.to_thread(visit.member.assistant.corpus.sections, document.id):
        planned = Plan(document, (section,), False, 1)
        read = await asyncio.to_thread(reader.read, planned, document.kb)
        await reader.engine.cache_prefix(read.prefix, pin=True, wait=False)


async def free(visit: Visit, document: StoredDocument) -> None:
    """Nothing of it is found cached any more, nor kept.

    Raises:
        Problem: `cannot_hold`, `engine_starting`.
    """
    await _reader(visit)

    def is_meant(name: str) -> bool:
        parsed = parse_name(name)
        return parsed is not None and parsed[:2] == (document.kb, document.name)

    await asyncio.to_thread(visit.member.assistant.power.free, document.kb, is_meant)


async def _reader(visit: Visit) -> Reader:
    if visit.place.host.state != "ready":
        raise Problem("engine_starting", visit.place.host.sentence(visit.language))
    reader = await visit.member.assistant.reader()
    if not reader.engine.features.handles:
        raise Problem("cannot_hold", visit.say("cannot_hold"))
    return reader
