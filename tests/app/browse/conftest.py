"""Gives the tests the pages of documents: Anna owns the harbour, Ben reads it, Mia has nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from browse_kit import HERE, MARSH, SALT, Pages, app_of
from library import FakePower, write

from app.assistant import Assistant
from app.people.desk import Desk
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE
from engine.fake import FakeEngine


@pytest.fixture
async def alone(assistant: Assistant, engine: FakeEngine, power: FakePower) -> AsyncIterator[Pages]:
    """Without accounts: who sits at the machine."""
    desk = Desk.of(Records.open(assistant.settings.home), assistant.corpus.kbs)
    place, app = app_of(assistant, desk)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as http:
        yield Pages(place, assistant, desk, engine, power, http)


@pytest.fixture
async def pages(alone: Pages, quick_hashes: None, tmp_path: Path) -> Pages:
    for name in ("anna", "ben", "mia", "root"):
        alone.desk.people.add(OF_THIS_MACHINE, name, admin=name == "root")
    alone.desk.library.create(OF_THIS_MACHINE, "harbour", "anna")
    alone.desk.library.share(OF_THIS_MACHINE, "harbour", person="ben")
    alone.assistant.add(write(tmp_path, "marsh.md", MARSH), kb="harbour")
    alone.assistant.add(write(tmp_path, "salt.md", SALT), kb="harbour")
    return alone
