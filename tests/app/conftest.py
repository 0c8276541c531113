"""Gives the app's tests a home without a model: real documents and search, a fake engine with vLLM's cache rules."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))  # the tiny tokenizer lies beside the engine's tests

from library import FakePower, Run
from rights_kit import clock, desk, kept, postgres, quick_hashes  # noqa: F401, fixtures of the tests about people
from tiny import write_tiny_tokenizer

from app.assistant import Assistant
from app.cli import main
from app.settings import Settings
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer
from ingest.corpus import Corpus


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


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs one command in this process; gives its exit code, stdout and stderr."""

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["readonce", *args])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        out, err = capfd.readouterr()
        return code, out, err

    return run
