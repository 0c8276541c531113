"""What a refusal offers: the whole document, where there is more of it, and what that costs by what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from library import LIBRARY, long_text, write
from rights_kit import owner

from app.answer import Answer, Reading
from app.assistant import Assistant
from app.batch.timing.clock import AnswerSeen, ReadSeen, Seen
from app.batch.timing.learnt import keep_seen
from app.page.documents import Choice
from app.page.offer import whole_offer
from app.page.pace import Pace
from app.read_through import section_lengths
from app.settings import Settings
from app.whole import cost_words
from engine.base import Receipt

COLD = Receipt(2100, 100, 6, 1000.0, 1250.0, "p", "first_use")
READING = Reading("", "Pump manual", "", False, 1, 1, 1, "p")
REFUSAL = Answer("Not in the passages searched", True, (), COLD, READING)


@pytest.fixture
def manual(assistant: Assistant, tmp_path: Path) -> str:
    return assistant.add(write(tmp_path, "pumps.md", long_text(12))).document_id


async def test_the_offer_tells_tokens_and_seconds_of_the_whole(assistant: Assistant, manual: str) -> None:
    """All sections at the measured rate, and a quarter of a second of words for each, as the refusal took."""
    pace = Pace()
    pace.note(COLD)
    assert pace.tokens_per_s == 2000
    choice = Choice("default", None)
    answer = replace(REFUSAL, reading=replace(READING, doc_id=manual))
    offer = await whole_offer(owner(assistant), answer, choice, pace, "en")
    lengths = await section_lengths(assistant, manual, "default")
    seconds = -int(-(sum(lengths) / 2000 + 0.25 * len(lengths)) // 1)
    assert offer == {
        "label": "Read the whole document",
        "cost": f"{len(lengths)} sections, {sum(lengths):,} tokens: up to {seconds} s",
        "document": f"default/{manual}",
    }


async def test_nothing_is_offered_where_nothing_is_left_to_read(
    assistant: Assistant, manual: str, tmp_path: Path
) -> None:
    """An answer; a whole document that was read; a document of one section; no document that was meant."""
    short = assistant.add(write(tmp_path, "library.md", LIBRARY)).document_id
    reading = replace(READING, doc_id=manual)
    member, all_of_it = owner(assistant), Choice("default", None)
    answers = [
        replace(REFUSAL, abstained=False, reading=reading),
        replace(REFUSAL, reading=replace(reading, whole=True)),
        replace(REFUSAL, reading=replace(READING, doc_id=short)),
        replace(REFUSAL, reading=None, receipt=None),
    ]
    assert [await whole_offer(member, answer, all_of_it, Pace(), "en") for answer in answers] == [None] * 4
    chosen = await whole_offer(member, answers[-1], Choice("default", manual), Pace(), "en")
    assert chosen is not None
    assert chosen["cost"].endswith("how long that takes here is not known yet")


def test_the_pace_is_that_of_what_was_read_cold(settings: Settings) -> None:
    """A warm call tells what its engine remembers of the cold one, a small one nothing; a batch of before counts."""
    pace = Pace.of(settings)
    assert pace.tokens_per_s is None
    pace.note(Receipt(2100, 2000, 6, 40.0, 300.0, "p", "evicted"))
    pace.note(Receipt(2100, None, 6, 40.0, 300.0, "p", "unknown"))
    pace.note(None)
    assert pace.tokens_per_s is None
    pace.note(Receipt(3000, 2990, 6, 40.0, 300.0, "p", None, 1500.0))
    assert pace.tokens_per_s == 2000
    settings.home.mkdir(exist_ok=True)
    answer = AnswerSeen(1.0, 20, False, 10, "", 19, 0.9, 0.1, 1.0, 0.0)
    keep_seen(settings, Seen((ReadSeen(1.0, 8_000, 10.0, 0.0),), (answer,)))
    assert Pace.of(settings).tokens_per_s == pytest.approx(800)


def test_the_cost_is_said_as_people_say_it() -> None:
    assert cost_words("16 pages", 23041, 27.2, "en") == "16 pages, 23,041 tokens: up to 28 s"
    assert cost_words("16 页", 23041, 0.4, "zh") == "16 页，23,041 个词元：最多 1 秒"
    assert cost_words("900 pages", 400_000, 270.0, "en") == "900 pages, 400,000 tokens: up to 5 minutes"
