"""A corpus over an empty home, with words hashed in place of a model; everything else is the real thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingest.corpus import Corpus, IngestSettings

SETTINGS = IngestSettings(embedder="hashing", section_tokens=300)


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    opened = Corpus.open(tmp_path / "home", SETTINGS)
    yield opened
    opened.close()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file to be added and gives its path."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
