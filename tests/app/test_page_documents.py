"""What picking does: the document of that name is read ahead, where there is one and the engine is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from library import LIBRARY, METRO, FakePower, write

from app.assistant import Assistant
from app.page import documents as page_documents
from app.page.host import Host
from app.settings import Settings
from engine.fake import FakeEngine


async def settled(assistant: Assistant) -> None:
    while page_documents._background or assistant.ahead._work:
        await asyncio.sleep(0.001)


async def test_document_that_was_picked_is_read_ahead(
    settings: Settings, assistant: Assistant, engine: FakeEngine, power: FakePower, tmp_path: Path
) -> None:
    """By its name in the picker; one that two documents bear, "all", or an engine that still starts: nothing."""
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    for name in ("a.md", "b.md"):
        assistant.add(write(tmp_path, name, METRO + name))
    host = Host(settings)
    page_documents.picked_soon(host, "The Marsh Lane Library")
    await settled(assistant)
    host.assistant = assistant
    page_documents.picked_soon(host, "The Marsh Lane Library")
    await settled(assistant)
    assert engine.handles == ()
    await assistant.start()
    host.state = "ready"
    for name in ("All documents", "望江路站", "The Marsh Lane Library"):
        page_documents.picked_soon(host, name)
        await settled(assistant)
    assert len(engine.handles) == 1
    while engine.num_running:
        await asyncio.sleep(0)
    assert [call.prompt.prefix.name for call in engine.calls] == ["default/library.md/1"]


async def test_chat_that_ended_lets_go(
    settings: Settings, assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """Before the engine is there nothing is to be let go of."""
    host = Host(settings)
    host.chat_ended("chat-1")
    host.assistant = assistant
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    async for _ in assistant.ask("When does it open?", session="chat-1"):
        pass
    await settled(assistant)
    kept = engine._named._kept[engine.handles[0].id]
    assert kept.sessions == {"chat-1"}
    host.state = "ready"
    host.chat_ended("chat-1")
    await settled(assistant)
    assert kept.sessions == set()
