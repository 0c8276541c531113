"""What `readonce status` reads in the ledger of an engine that does not tell what it holds."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.commands.engine import sections_read
from app.power import LEDGER_NAME, EngineStatus
from engine.base import Prefix
from engine.ledger import Ledger

RUNNING = EngineStatus(True, instance="i1")


def in_home(home: Path) -> Any:
    return SimpleNamespace(settings=SimpleNamespace(home=home))


def test_sections_of_this_life_of_the_engine_are_told(tmp_path: Path) -> None:
    """By base and file; a folder whose name is special in a URI is one like any other."""
    home = tmp_path / "a?b#c%20"
    ledger = Ledger(home / LEDGER_NAME)
    for token_id, name, instance in ((1, "kb/a.txt/1,2", "i1"), (2, "kb/b.txt/1", "i0")):
        prefix = Prefix(token_ids=(token_id,), name=name, namespace="kb")
        ledger.settle(prefix, instance=instance, cached_tokens=0, first_token_ms=1.0, began_s=time.time())
    ledger.close()
    assert sections_read(in_home(home), RUNNING) == {("kb", "a.txt"): {1, 2}}


@pytest.mark.parametrize("content", [b"no database at all" * 300, b""])
def test_a_ledger_that_does_not_read_tells_of_nothing(tmp_path: Path, content: bytes) -> None:
    """The next question makes it anew; until then nothing is known to have been read."""
    (tmp_path / LEDGER_NAME).write_bytes(content)
    assert sections_read(in_home(tmp_path), RUNNING) == {}
