"""Questions to go on with: on the cached prompt, about what was read, and only where they come soon."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

from library import LIBRARY, METRO, write

from app.assistant import Assistant
from app.cite import Source
from app.conversation import Conversation
from app.follow_ups import come_soon, follow_ups, usable
from engine.base import Receipt
from engine.fake import FakeEngine

READ = (Source("d", "t", 1, 1, None, 0, LIBRARY),)


def receipt(output_tokens: int, total_ms: float, first_token_ms: float | None = 100.0) -> Receipt:
    return Receipt(1000, 900, output_tokens, first_token_ms, total_ms, "p", None)


async def ask(assistant: Assistant, question: str, conversation: Conversation) -> None:
    async with aclosing(assistant.ask(question, conversation=conversation)) as stream:
        async for _ in stream:
            pass


async def test_they_begin_with_the_answered_prompt_and_leave_the_conversation_alone(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """Prompt and answer before are found in the cache, whole blocks of them, and whoever asks goes first."""
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    conversation = Conversation()
    engine.enqueue("A card costs 12 euros a year [2].", "1. What do students pay?\n2. Where are the maps kept?")
    await ask(assistant, "What does a card cost?", conversation)
    before = (tuple(conversation.turns), conversation.first)
    asked = engine.calls[-1]
    assert await follow_ups(assistant, conversation) == ("What do students pay?", "Where are the maps kept?")
    call = engine.calls[-1]
    former = (*asked.prompt.token_ids, *asked.output_ids)
    assert call.prompt.token_ids[: len(former)] == former
    assert call.cached_tokens is not None
    assert call.cached_tokens >= (len(former) - 1) // engine.cache.block_size * engine.cache.block_size
    assert call.sampling.priority > asked.sampling.priority
    assert (tuple(conversation.turns), conversation.first) == before


def test_only_whole_new_questions_about_what_was_read_are_offered() -> None:
    """Not what was asked, no statement, no other language, nothing that the text has no words of; three at most."""
    said = (
        "Here are some questions:\n- **How much does a card cost?**\n2) When does the reading room open?\n"
        "Who won the football championship in Brazil?\n(3) 图书馆几点开门？\nMaps are in the cellar.\n"
        "* Where are maps kept?\nWhat do students pay?\nWhat do students pay ?\nIs the house closed on Sundays?\nWhat"
    )
    asked = ["How late is it open?", "How much is the cost of a card"]
    assert usable(said, asked, READ) == (
        "When does the reading room open?",
        "Where are maps kept?",
        "What do students pay?",
    )


def test_a_chinese_chat_is_offered_chinese_questions() -> None:
    read = (Source("d", "t", 1, 1, None, 0, METRO),)
    said = "1、望江路站有几个出口？\nHow many exits are there?\n2、站台有多长？"
    assert "望江路站有几个出口？" in usable(said, ["该站何时启用？"], read)
    assert usable("How many exits are there?", ["该站何时启用？"], read) == ()


def test_they_are_asked_for_only_where_they_come_soon() -> None:
    """By the rate of the answer itself; where that is not known, not."""
    assert come_soon(receipt(101, 100 + 100 * 20))  # 20 ms a token: 1.4 s
    assert not come_soon(receipt(101, 100 + 100 * 60))  # 60 ms a token: 4.3 s
    assert not come_soon(receipt(1, 100))
    assert not come_soon(receipt(50, 900, None))
    assert not come_soon(None)
