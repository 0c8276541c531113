"""Making a message keeps nobody waiting."""

from __future__ import annotations

import time
from importlib import import_module

import chainlit as cl
import pytest
from chats import chatting

from app.page.haste import MODULES, leave_out_waits


async def test_messages_and_steps_are_made_without_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chainlit alone sleeps on the event loop for each of them; what else it takes from `time` stays."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for name in MODULES:
        monkeypatch.setattr(import_module(name), "time", time)
    async with chatting(None):
        cl.Message("The ferry costs 23 crowns.")
        assert slept == [0.001]
        leave_out_waits()
        message, search = cl.Message("The ferry costs 23 crowns."), cl.Step(name="search")
    assert slept == [0.001]
    assert (message.content, search.name) == ("The ferry costs 23 crowns.", "search")
    assert all(import_module(name).time.monotonic is time.monotonic for name in MODULES)
