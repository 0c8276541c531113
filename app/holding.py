"""Decides how a whole document is held in the engine on purpose: each of its sections is read, kept, or let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from app.plan import Plan
from app.reader import parse_name

if TYPE_CHECKING:
    from app.power import Power
    from app.reader import Reader
    from engine.base import Handle
    from ingest.document import Section
    from ingest.store import StoredDocument


async def hold(
    reader: Reader, document: StoredDocument, sections: Sequence[Section], *, pin: bool = False, wait: bool = True
) -> AsyncIterator[Handle]:
    """Has the sections read, one after the other, in the background or not; each is told of once it is known there.

    Args:
        sections: All that the document has.
        pin: They stay whatever else is read, up to a share of the cache, until they are let go.

    Raises:
        EngineError: `pins_full`, `does_not_fit`: what came before is held.
    """
    for section in sections:
        read = await asyncio.to_thread(reader.read, Plan(document, (section,), False, 1), document.kb)
        yield await reader.engine.cache_prefix(read.prefix, pin=pin, wait=wait)


def let_go(power: Power, document: StoredDocument) -> int:
    """Nothing of it is found cached any more, nor kept; of so many prefixes. Blocking; starts nothing."""

    def is_meant(name: str) -> bool:
        parsed = parse_name(name)
        return parsed is not None and parsed[:2] == (document.kb, document.name)

    return power.free(document.kb, is_meant)
