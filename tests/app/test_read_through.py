"""Reading a whole document for a question: section after section, each cached, until one answers."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from library import NAMES, long_text, write

from app.answer import Answer, Event, Reading, Words
from app.assistant import Assistant
from app.conversation import Conversation
from app.read_through import read_through, section_lengths, summed
from engine.base import Receipt
from engine.fake import FakeEngine

NOT_TOLD = "The document does not say."
QUESTION = f"What colour is pump {NAMES[10]} painted?"


@pytest.fixture
def doc_id(assistant: Assistant, tmp_path: Path) -> str:
    """A manual in several sections."""
    doc_id = assistant.add(write(tmp_path, "pumps.md", long_text(12))).document_id
    assert len(assistant.corpus.sections(doc_id)) >= 3
    return doc_id


async def events(assistant: Assistant, doc_id: str, conversation: Conversation | None = None) -> list[Event]:
    asked = read_through(assistant, QUESTION, kb="default", doc_id=doc_id, conversation=conversation)
    async with aclosing(asked) as stream:
        return [event async for event in stream]


def answer(came: list[Event]) -> Answer:
    last = came[-1]
    assert isinstance(last, Answer)
    assert last.reading is not None
    assert last.receipt is not None
    return last


async def test_where_no_section_answers_all_pages_were_read(
    assistant: Assistant, engine: FakeEngine, doc_id: str
) -> None:
    """Each section is read once, no word of the single refusals is shown, and one turn stays."""
    sections = assistant.corpus.sections(doc_id)
    engine.enqueue(*[NOT_TOLD] * len(sections))
    conversation = Conversation()
    came = await events(assistant, doc_id, conversation)
    assert len([event for event in came if isinstance(event, Reading)]) == len(sections)
    assert [event for event in came if isinstance(event, Words)] == []
    last = answer(came)
    assert last.abstained
    assert last.reading is not None
    assert last.reading.whole
    assert (last.reading.first_page, last.reading.last_page) == (1, last.reading.num_pages)
    assert last.text == "Not in this document (the whole text was read)."
    assert [turn.sections for turn in conversation.turns] == [(sections[-1].number,)]
    assert sum(call.prompt.num_tokens for call in engine.calls) == last.receipt.prompt_tokens  # type: ignore[union-attr]


async def test_it_ends_with_the_first_section_that_answers(
    assistant: Assistant, engine: FakeEngine, doc_id: str
) -> None:
    """Its citations hold, later sections are not read, and the conversation goes on with it."""
    sections = assistant.corpus.sections(doc_id)
    text = assistant.corpus.text(doc_id)
    fact = text.index(f"Pump {NAMES[10]} runs")
    number = next(section.number for section in sections if section.start <= fact < section.end)
    said = f"Pump {NAMES[10]} runs at 1507 revolutions and is painted red."
    assert number > 1
    engine.enqueue(*[NOT_TOLD] * (number - 1), said)
    conversation = Conversation()
    last = answer(await events(assistant, doc_id, conversation))
    assert not last.abstained
    assert len(engine.calls) == number
    assert last.citations[0].quote.startswith(f"Pump {NAMES[10]} runs at 1507 revolutions")
    assert [turn.sections for turn in conversation.turns] == [(number,)]


async def test_a_second_reading_finds_all_of_the_first_one_cached(
    assistant: Assistant, engine: FakeEngine, doc_id: str
) -> None:
    """Nothing of a section is computed twice but its last block."""
    count = len(assistant.corpus.sections(doc_id))
    engine.enqueue(*[NOT_TOLD] * count * 2)
    await events(assistant, doc_id)
    receipt = answer(await events(assistant, doc_id)).receipt
    assert receipt is not None
    assert receipt.cached_tokens is not None
    assert receipt.prompt_tokens - receipt.cached_tokens <= count * engine.cache.block_size
    assert receipt.cold_because is None


async def test_one_that_is_stopped_keeps_the_turn_that_was_being_written(
    assistant: Assistant, engine: FakeEngine, doc_id: str
) -> None:
    """As a stopped answer does: its ids are cached, and the next question goes on behind them."""
    engine.enqueue("x " * 200)
    conversation = Conversation()
    asked = read_through(assistant, QUESTION, kb="default", doc_id=doc_id, conversation=conversation)
    async with aclosing(asked) as stream:
        async for event in stream:
            if isinstance(event, Words):
                break
    assert len(conversation.turns) == 1
    assert engine.num_running == 0


async def test_the_lengths_told_beforehand_are_those_of_what_is_read(
    assistant: Assistant, engine: FakeEngine, doc_id: str
) -> None:
    """Token by token, counted without reading anything."""
    lengths = await section_lengths(assistant, doc_id, "default")
    assert engine.calls == []
    engine.enqueue(*[NOT_TOLD] * len(lengths))
    await events(assistant, doc_id)
    assert [call.prompt.prefix.num_tokens for call in engine.calls] == list(lengths)


RECEIPTS = st.lists(
    st.builds(
        Receipt,
        prompt_tokens=st.integers(1, 9000),
        cached_tokens=st.none() | st.integers(0, 9000),
        output_tokens=st.integers(0, 300),
        first_token_ms=st.floats(1, 1e4),
        total_ms=st.floats(1, 1e4),
        prefix=st.just("p"),
        cold_because=st.sampled_from([None, "first_use"]),
    ),
    min_size=1,
    max_size=6,
)


@given(RECEIPTS)
def test_a_receipt_of_several_calls_is_their_sum_and_tells_what_is_not_known(receipts: list[Receipt]) -> None:
    """What one call did not report, the whole does not report either."""
    whole = summed(receipts)
    assert whole is not None
    assert whole.prompt_tokens == sum(each.prompt_tokens for each in receipts)
    reported = [each.cached_tokens for each in receipts]
    assert whole.cached_tokens == (None if None in reported else sum(each or 0 for each in reported))
    assert whole.total_ms == pytest.approx(sum(each.total_ms for each in receipts))
    assert (whole.cold_because is None) == all(each.cold_because is None for each in receipts)
