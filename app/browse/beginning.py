"""Decides with which questions a chat begins that was opened from a document's page: those of its guide."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.browse.place import Place
    from app.people.rights import Person


async def chosen_questions(place: Place, person: Person) -> list[str]:
    """Empty where nothing was chosen, where it has no guide, or may not be read any more."""
    choice = place.chosen.look(person.name)
    if choice is None or choice.doc_id is None:
        return []
    if choice.kb not in await asyncio.to_thread(place.desk.library.readable_names, person):
        return []
    guide = await asyncio.to_thread(place.guides.get, choice.doc_id)
    return list(guide.questions) if guide is not None else []
