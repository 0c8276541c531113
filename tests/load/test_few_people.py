"""The measurement of many people, with a few: real processes, logins, sockets, kept chats read again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))  # the tiny tokenizer lies beside the engine's tests

from tiny import write_tiny_tokenizer

from app.bench.load import LoadPlan, measure_people
from app.settings import Settings


@pytest.mark.browser
def test_a_few_people_on_the_page_and_the_api_lose_nothing(tmp_path: Path) -> None:
    """Every question of page and API comes back whole, in order, and is kept."""
    tokenizer = write_tiny_tokenizer(tmp_path / "model", qwen=True)
    (tokenizer / "config.json").write_text("{}")
    home = tmp_path / "home"
    settings = Settings.load(home=home, model=str(tokenizer), embedder="hashing", section_tokens=512)
    said: list[str] = []
    plan = LoadPlan(4, 20.0, 4.0, 1.0, 0.25, prompt_token_s=0.0, answer_token_s=0.001)
    figures = measure_people(settings, plan, said.append)
    assert [way.way for way in figures.ways] == ["page", "API"]
    for way in figures.ways:
        assert way.questions > 0
        assert (way.unanswered, way.out_of_order, way.not_kept) == (0, 0, 0)
    assert figures.cpu_ms > 0
    assert any("questions of 4 people" in sentence for sentence in said)
