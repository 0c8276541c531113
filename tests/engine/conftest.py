"""Gives the engine's tests a tiny tokenizer, layouts over it, and (marked `engine`) a real model and a real server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # helpers beside the tests, importable under any pytest import mode

from shared import FIXTURE, SharedEngine
from tiny import write_tiny_tokenizer

from engine.prompt import Layout
from engine.tokenizer import Tokenizer


@pytest.fixture(scope="session", params=["gpt2", "qwen"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tiny tokenizer of each of the two families of splitting rules."""
    folder = tmp_path_factory.mktemp(f"tiny-{request.param}")
    return Tokenizer(write_tiny_tokenizer(folder, qwen=request.param == "qwen"))


@pytest.fixture(scope="session")
def layout(tokenizer: Tokenizer) -> Layout:
    return Layout(tokenizer)


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """SmolLM2's folder, fetched where it is not on this machine yet."""
    from platformdirs import user_cache_dir

    from engine.models import resolve

    cache = os.environ.get("READONCE_CACHE") or str(Path(user_cache_dir("readonce")) / "models")
    return resolve("smollm2-135m", Path(cache)).folder


@pytest.fixture(scope="session", name=FIXTURE)
def shared_engine(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedEngine]:
    """Started once, for the tests that come last."""
    made = SharedEngine(model_folder, tmp_path_factory.mktemp("shared"))
    yield made
    made.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that share an engine come last, one after the other: it then runs beside no other engine."""
    items.sort(key=lambda item: FIXTURE in getattr(item, "fixturenames", ()))
