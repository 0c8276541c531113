"""A chat whose session has ended leaves nothing behind in the page's memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest
from chainlit.chat_context import chat_contexts
from chainlit.session import WebsocketSession

from app.page.memory import forget_with_sessions, give_back


async def _nothing(*_: Any) -> None: ...


async def _a_moment() -> None:
    """What was to be called now has been called."""
    for _ in range(3):
        await asyncio.sleep(0)


def _session(name: str) -> WebsocketSession:
    return WebsocketSession(
        id=name, socket_id=f"socket of {name}", emit=_nothing, emit_call=_nothing, user_env={}, client_type="webapp"
    )


async def test_messages_go_with_their_session_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chainlit alone keeps every message that was ever sent until the process ends."""
    monkeypatch.setattr(WebsocketSession, "delete", WebsocketSession.delete)
    forget_with_sessions(after_s=0.0)
    forget_with_sessions(after_s=3600.0)  # the page was loaded again: the first one stands
    one, other = _session("one"), _session("other")
    chat_contexts.update({"one": ["a message"], "other": ["another"]})  # type: ignore[dict-item]
    await one.delete()
    await _a_moment()
    assert "one" not in chat_contexts
    assert chat_contexts["other"] == ["another"]
    await other.delete()
    await _a_moment()
    assert "other" not in chat_contexts


async def test_the_files_go_when_the_answer_that_was_being_written_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """New chat stops an answer, whose last words and foot are still put into the files of the session."""
    monkeypatch.setattr(WebsocketSession, "delete", WebsocketSession.delete)
    monkeypatch.setattr(WebsocketSession, "files_dir", tmp_path / "one")
    forget_with_sessions(after_s=0.0)
    kept: list[str] = []

    async def answer() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            one.files_dir.mkdir()
            await asyncio.sleep(0.05)
            (one.files_dir / "foot").write_text("stopped")
            kept.append((one.files_dir / "foot").read_text())

    one = _session("one")
    one.current_task = asyncio.create_task(answer())
    await _a_moment()
    one.current_task.cancel()
    await one.delete()
    assert kept == ["stopped"]
    assert not one.files_dir.exists()


@pytest.mark.skipif(not give_back(), reason="this C library gives memory back by itself, or never")
def test_memory_that_was_freed_between_what_is_held_goes_back() -> None:
    """Pieces too small to be mapped each by itself, of which one in a hundred stays."""
    process, size = psutil.Process(), 32 * 1024
    pieces = [bytes([number % 251 + 1]) * size for number in range(4_000)]
    held = pieces[::100]
    del pieces
    before = process.memory_info().rss
    assert give_back()
    assert before - process.memory_info().rss > 2_000 * size
    assert len(held) == 40
