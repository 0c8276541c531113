"""What the engine is told in passing: read this ahead, a chat holds that, this has gone. Nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from pathlib import Path

import pytest
from library import LIBRARY, FakePower, long_text, write

from app.answer import Answer
from app.assistant import DEFAULT_KB, Assistant
from engine.base import EngineError, Features, Prefix
from engine.fake import FakeEngine


async def ask(assistant: Assistant, question: str, **more: object) -> Answer:
    async with aclosing(assistant.ask(question, **more)) as events:  # type: ignore[arg-type]
        async for event in events:
            if isinstance(event, Answer):
                return event
    raise AssertionError("no answer")


async def settled(assistant: Assistant) -> None:
    """All that was told in passing has been told."""
    while assistant.ahead._work:
        await asyncio.sleep(0)


async def test_added_documents_are_read_ahead_where_an_engine_runs(
    assistant: Assistant, engine: FakeEngine, power: FakePower, tmp_path: Path
) -> None:
    """The first section of each, without waiting for it; their first question is warm. No engine is started for it."""
    ids = [
        assistant.add(write(tmp_path, name, text)).document_id
        for name, text in (("library.md", LIBRARY), ("pumps.md", long_text(12)))
    ]
    await assistant.ahead.read(ids, DEFAULT_KB)
    assert (engine.calls, power.num_connects) == ([], 0)
    await assistant.start()
    await assistant.ahead.read(ids, DEFAULT_KB)
    while engine.num_running or len(engine.calls) < 2:
        await asyncio.sleep(0)
    assert [call.prompt.prefix.name for call in engine.calls] == ["default/library.md/1", "default/pumps.md/1"]
    receipt = (await ask(assistant, "When does it open?", doc_id=ids[0])).receipt
    assert receipt is not None
    assert receipt.cached_tokens == engine.calls[0].prompt.prefix.num_tokens // 32 * 32


async def test_command_tells_an_engine_that_runs_already(
    assistant: Assistant, engine: FakeEngine, power: FakePower, tmp_path: Path
) -> None:
    """Without taking a lease on it: it neither starts nor stays for this."""
    power.runs = True
    doc_id = assistant.add(write(tmp_path, "library.md", LIBRARY)).document_id
    await assistant.ahead.read([doc_id], DEFAULT_KB)
    assert [handle.num_tokens for handle in engine.handles] == [engine.handles[0].num_tokens]
    assert (power.num_connects, power.released) == (0, [])


async def test_engine_that_cannot_let_questions_go_first_is_not_told(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """There a long document read ahead would be in the way of whoever asks."""
    engine._features = Features(handles=False, off="It can't.")
    doc_id = assistant.add(write(tmp_path, "library.md", LIBRARY)).document_id
    await assistant.start()
    assistant.ahead.read_soon(doc_id, DEFAULT_KB)
    await ask(assistant, "When does it open?", session="chat 1")
    await settled(assistant)
    assert len(engine.calls) == 1
    assert assistant.features_off == "It can't."


async def test_chat_holds_what_it_asks_about_until_its_end(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told once a chat and prefix; the end is told once, and what the chat read stays for everybody."""
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    told: list[tuple[str, str]] = []
    cache, release = engine.cache_prefix, engine.release_session

    async def cached(prefix: Prefix, *, session: str | None = None, **more: object) -> object:
        told.append(("hold", str(session)))
        return await cache(prefix, session=session, **more)  # type: ignore[arg-type]

    async def released(session: str) -> None:
        told.append(("release", session))
        await release(session)

    monkeypatch.setattr(engine, "cache_prefix", cached)
    monkeypatch.setattr(engine, "release_session", released)
    for chat in ("one", "one", "two"):
        await ask(assistant, "When does it open?", session=chat)
    assistant.ahead.release_soon("one")
    assistant.ahead.release_soon("one")
    assistant.ahead.release_soon("nobody")
    await settled(assistant)
    assert told == [("hold", "one"), ("hold", "two"), ("release", "one")]
    assert len(engine.handles) == 1


async def test_cache_apart_is_freed_with_the_assistant(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """A measurement leaves nothing registered behind it."""
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    await ask(assistant, "When does it open?", apart="run 1")
    await ask(assistant, "When does it open?")
    await assistant.warm_engine()
    assert len(engine.handles) == 2
    await assistant.close()
    (left,) = engine.handles
    assert left.id == engine.calls[1].prompt.prefix.id


async def test_removed_and_replaced_documents_are_freed_in_their_base(
    assistant: Assistant, power: FakePower, tmp_path: Path
) -> None:
    """All sections of that file there, and nothing else."""
    doc_id = assistant.add(write(tmp_path, "library.md", LIBRARY)).document_id
    assistant.add(tmp_path / "library.md", kb="private")
    other = assistant.add(write(tmp_path, "library.md.txt", "Another text.")).document_id
    for kb, asked in ((DEFAULT_KB, doc_id), ("private", doc_id), (DEFAULT_KB, other)):
        await ask(assistant, "When does it open?", kb=kb, doc_id=asked)
    assistant.remove(doc_id)
    assistant.add(write(tmp_path, "library.md", LIBRARY + "\nMore.\n"), kb="private")
    assert power.freed == [(DEFAULT_KB, ["default/library.md/1"]), ("private", ["private/library.md/1"])]


async def test_receipt_tells_a_replaced_document_from_one_that_came_back(assistant: Assistant, tmp_path: Path) -> None:
    """Of a removed document nothing is remembered, not even that it was there."""

    async def why() -> str | None:
        receipt = (await ask(assistant, "When does it open?")).receipt
        assert receipt is not None
        return receipt.cold_because

    assistant.add(write(tmp_path, "library.md", LIBRARY))
    told = [await why()]
    doc_id = assistant.add(write(tmp_path, "library.md", LIBRARY.replace("Marsh", "Long"))).document_id
    told.append(await why())
    assistant.remove(doc_id)
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    told.append(await why())
    assert told == ["first_use", "changed", "first_use"]


async def test_what_goes_wrong_in_passing_is_logged_and_fails_nothing(
    assistant: Assistant,
    engine: FakeEngine,
    power: FakePower,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Reading ahead, holding, freeing: the answer comes, the document goes."""

    async def refuse(*args: object, **more: object) -> None:
        raise EngineError("pins_full", "There is no room.")

    def unreachable(*args: object) -> int:
        raise EngineError("engine_unreachable", "It is gone.")

    doc_id = assistant.add(write(tmp_path, "library.md", LIBRARY)).document_id
    await assistant.start()
    monkeypatch.setattr(engine, "cache_prefix", refuse)
    monkeypatch.setattr(power, "free", unreachable)
    with caplog.at_level(logging.WARNING, "app.ahead"):
        await assistant.ahead.read([doc_id], DEFAULT_KB)
        assert (await ask(assistant, "When does it open?", session="chat")).receipt is not None
        await settled(assistant)
        assistant.remove(doc_id)
    assert assistant.documents() == []
    assert [record.getMessage() for record in caplog.records] == [
        "The engine was not told to read ahead: There is no room.",
        "The engine was not told to bind: There is no room.",
        "The engine was not told to free: It is gone.",
    ]
