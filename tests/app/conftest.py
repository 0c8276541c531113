"""Gives the app's tests a home without a model: real documents and search, a fake engine with vLLM's cache rules."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))  # the tiny tokenizer lies beside the engine's tests

from tiny import write_tiny_tokenizer

from app.assistant import Assistant
from app.power import EngineStatus
from app.settings import Settings
from engine.base import Engine
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer
from ingest.corpus import Corpus

LIBRARY = """# The Marsh Lane Library

## Opening hours

The reading room opens at 9 in the morning on weekdays and at 11 on Saturdays. It closes at 18:30. On Sundays the house
is closed, except for the last Sunday of March, when the spring fair is held in the courtyard.

## Cards and fees

A reader's card costs 12 euros a year. Students pay 4 euros; children under fourteen pay nothing at all. A lost card is
replaced for 3 euros. Fees for late returns are 20 cents a day and never more than the price of the book itself.

## The map cellar

Maps are kept in the cellar below the east wing, where the air is dry. They are fetched twice a day, at 10:15 and at
14:45. The oldest map shows the salt road of 1587 and may be looked at only together with the keeper, Ottilie Brandt.
"""

METRO = """# 望江路站

望江路站位于城东区，是地铁四号线的换乘车站。该站于2009年9月28日启用，共有三个出口。站台长一百二十米。
"""


class FakePower:
    """In place of `app.power.Power`: hands out one fake engine, and counts."""

    def __init__(self, engine: FakeEngine, tokenizer: Tokenizer) -> None:
        self.engine, self.tokenizer = engine, tokenizer
        self.num_connects, self.released, self.lingers_s = 0, list[bool](), 0.0

    async def connect(self, report: Callable[[str], None]) -> tuple[Engine, Tokenizer]:
        self.num_connects += 1
        report("Loading the model ... 0 s")
        return self.engine, self.tokenizer

    async def release(self, linger: bool) -> None:
        self.released.append(linger)

    def status(self) -> EngineStatus:
        return EngineStatus(False)

    def stop(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests never see the settings of whoever runs them, nor their documents."""
    for name in list(os.environ):
        if name.startswith("READONCE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("READONCE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("READONCE_EMBEDDER", "hashing")
    monkeypatch.setenv("READONCE_DEVICE", "cpu")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Sections of 2,000 estimated tokens, as on a CPU."""
    return Settings.load()


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tiny"), qwen=True))


@pytest.fixture
def engine(tokenizer: Tokenizer) -> FakeEngine:
    """The tiny tokenizer makes about a token a byte, hence the length."""
    return FakeEngine(tokenizer, max_model_len=65_536, num_blocks=16_384)


@pytest.fixture
def power(engine: FakeEngine, tokenizer: Tokenizer) -> FakePower:
    return FakePower(engine, tokenizer)


@pytest.fixture
async def assistant(settings: Settings, power: FakePower) -> AsyncIterator[Assistant]:
    made = Assistant(settings, Corpus.open(settings.home, settings.ingest), power)  # type: ignore[arg-type]
    yield made
    await made.close()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def long_text(chapters: int) -> str:
    """A manual of some 500 tokens a chapter; each chapter has one fact of its own, about a numbered pump."""
    filler = (
        "The bearings are greased every month and the filter is rinsed with clean water before the pump is run. " * 18
    )
    parts = ["# Pump manual"]
    for number in range(1, chapters + 1):
        fact = f"Pump {NAMES[number - 1]} runs at {number * 137} revolutions and is painted {COLOURS[number % 5]}."
        parts.append(f"## Chapter {number}: pump {NAMES[number - 1]}\n\n{fact} {filler}")
    return "\n\n".join(parts)


NAMES = ["Alder", "Birch", "Cedar", "Dogwood", "Elder", "Fir", "Ginkgo", "Hazel", "Ivy", "Juniper", "Kauri", "Larch"]
COLOURS = ["red", "blue", "green", "yellow", "white"]
