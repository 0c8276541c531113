"""The two paths, over real documents and vLLM's cache rules: events, reuse, stopping, abstaining, what never starts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from library import LIBRARY, METRO, NAMES, FakePower, long_text, write

from app.answer import Answer, Event, Reading, Words
from app.assistant import Assistant
from app.conversation import Conversation
from app.problem import Problem
from app.terms import fold
from engine.base import Delta, Engine, EngineError, Finish, Prompt, Sampling
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer


def add(assistant: Assistant, folder: Path, name: str = "library.md", text: str = LIBRARY) -> str:
    return assistant.add(write(folder, name, text)).document_id


async def events(assistant: Assistant, question: str, **more: object) -> list[Event]:
    async with aclosing(assistant.ask(question, **more)) as stream:  # type: ignore[arg-type]
        return [event async for event in stream]


async def answer(assistant: Assistant, question: str, **more: object) -> Answer:
    last = (await events(assistant, question, **more))[-1]
    assert isinstance(last, Answer)
    return last


async def test_answer_streams_between_reading_and_the_checked_answer(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """Reading first, words that join to what the model said, the checked answer last."""
    doc_id = add(assistant, tmp_path)
    engine.enqueue("A card costs 12 euros a year [3].")
    came = await events(assistant, "What does a card cost?")
    assert isinstance(came[0], Reading)
    assert (came[0].doc_id, came[0].whole, came[0].num_pages) == (doc_id, True, 1)
    assert "".join(event.text for event in came if isinstance(event, Words)) == "A card costs 12 euros a year [3]."
    last = came[-1]
    assert isinstance(last, Answer)
    assert last.text == "A card costs 12 euros a year [1]."
    assert [citation.quote for citation in last.citations] == ["A reader's card costs 12 euros a year."]
    assert last.receipt is not None
    assert last.receipt.cold_because == "first_use"


async def test_quote_of_every_citation_stands_on_its_page(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """C6: white space folded, quote and page text agree, whatever paragraph is cited."""
    doc_id = add(assistant, tmp_path)
    pages = {page.number: fold(page.text) for page in assistant.corpus.pages(doc_id)}
    text = assistant.corpus.text(doc_id)
    for said in ("Maps are kept in the cellar [1].", "It closes at 18:30 [2]. A lost card is replaced for 3 euros."):
        engine.enqueue(said)
        citations = (await answer(assistant, "Tell me about the library")).citations
        assert citations
        for citation in citations:
            assert citation.quote in pages[citation.page]
            assert citation.quote == fold(text[citation.start : citation.end])


async def test_headings_are_read_but_not_quoted(assistant: Assistant, engine: FakeEngine, tmp_path: Path) -> None:
    """A quote begins with the sentence, not with what stands above it; a heading alone may still be quoted."""
    add(assistant, tmp_path)
    engine.enqueue("The reading room opens at 9 in the morning on weekdays.")
    said = await answer(assistant, "When does it open?")
    assert said.citations[0].quote.startswith("The reading room opens at 9")


async def test_second_question_reuses_what_the_first_one_read(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """Every whole block of the prefix, and so at least 95 % of the prompt."""
    add(assistant, tmp_path, "pumps.md", long_text(12))
    await answer(assistant, f"How many revolutions does pump {NAMES[0]} run at?")
    receipt = (await answer(assistant, f"What colour is pump {NAMES[0]} painted?")).receipt
    assert receipt is not None
    assert receipt.cached_tokens is not None
    prefix_tokens = engine.calls[-1].prompt.prefix.num_tokens
    assert receipt.cached_tokens >= prefix_tokens // 32 * 32
    assert receipt.cached_tokens >= 0.95 * receipt.prompt_tokens
    assert receipt.cold_because is None


async def test_follow_ups_reuse_their_whole_conversation(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """C1: each prompt begins with the prompt and the answer before it, id by id; only the last block is new."""
    add(assistant, tmp_path, "pumps.md", long_text(12))
    conversation = Conversation()
    before: tuple[int, ...] = ()
    for question in (f"How fast is pump {NAMES[3]}?", "And its colour?", "Why?", "And how often is it greased?"):
        receipt = (await answer(assistant, question, conversation=conversation)).receipt
        call = engine.calls[-1]
        assert call.prompt.token_ids[: len(before)] == before
        if before:
            assert receipt is not None
            assert receipt.cached_tokens is not None
            assert receipt.cached_tokens >= len(before) // 32 * 32 - 32
            assert receipt.cached_tokens >= 0.95 * receipt.prompt_tokens
        before = (*call.prompt.token_ids, *call.output_ids)


async def test_prefix_does_not_depend_on_question_conversation_or_search(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """C2: what is asked stands behind what is read, never in it."""
    doc_id = add(assistant, tmp_path)
    conversation = Conversation()
    for question in ("When does it open?", "zxqv", "地图在哪里？"):
        await answer(assistant, question, doc_id=doc_id)
        await answer(assistant, question, doc_id=doc_id, conversation=conversation)
    await assistant.warm(doc_id)
    assert len({call.prompt.prefix.id for call in engine.calls}) == 1


async def test_warmed_document_answers_its_first_question_warm(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """The first question about a document just uploaded is quick."""
    doc_id = add(assistant, tmp_path)
    await assistant.warm(doc_id)
    receipt = (await answer(assistant, "When does it open?")).receipt
    assert receipt is not None
    assert receipt.cold_because is None
    assert receipt.cached_tokens == engine.calls[0].prompt.prefix.num_tokens // 32 * 32


async def test_stopped_answer_is_aborted_and_remembered(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """Stop ends the request in the engine; the next question still finds the raw ids of what had come."""
    add(assistant, tmp_path)
    engine.enqueue("The reading room opens at nine in the morning on weekdays and at eleven on Saturdays.")
    conversation = Conversation()
    stream = assistant.ask("When does it open?", conversation=conversation)
    num_words = 0
    async for event in stream:
        num_words += isinstance(event, Words)
        if num_words == 4:
            break
    await stream.aclose()
    stopped = engine.calls[-1]
    assert (stopped.reason, engine.num_running) == ("abort", 0)
    await answer(assistant, "And on Saturdays?", conversation=conversation)
    so_far = (*stopped.prompt.token_ids, *stopped.output_ids)
    assert engine.calls[-1].prompt.token_ids[: len(so_far)] == so_far


async def test_refusal_is_told_in_our_words_with_how_much_was_read(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """C25: whole documents and parts of them are told apart; nothing is cited."""
    add(assistant, tmp_path)
    engine.enqueue("The document does not say.")
    whole = await answer(assistant, "Who is the mayor?")
    assert (whole.abstained, whole.citations) == (True, ())
    assert whole.text == "Not in this document (the whole text was read)."
    assert whole.receipt is not None


async def test_nothing_relevant_asks_no_model(assistant: Assistant, power: FakePower, tmp_path: Path) -> None:
    """No engine is even started."""
    add(assistant, tmp_path)
    add(assistant, tmp_path, "pumps.md", long_text(4))
    (only,) = await events(assistant, "Quetzalcoatl's zeppelin?")
    assert isinstance(only, Answer)
    assert (only.abstained, only.receipt, only.reading) == (True, None, None)
    assert only.text == "Not in the passages searched: nothing in 2 documents matches the question."
    assert power.num_connects == 0


async def test_answer_from_memory_abstains_and_labels_it(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """No sentence of it stands in what was read: that is said first, and the words are shown as the model's own."""
    add(assistant, tmp_path)
    engine.enqueue("Paris is the capital of France.")
    labelled = await answer(assistant, "What is the capital of France?")
    assert labelled.text == (
        "Not in this document (the whole text was read). Without support in the text: “Paris is the capital of France.”"
    )
    assert labelled.refusal == "Not in this document (the whole text was read)."
    assert labelled.unsupported == "Paris is the capital of France."
    assert (labelled.abstained, labelled.citations) == (True, ())


async def test_an_exact_name_is_cited_alone_and_after_a_question_that_it_leans_on(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """The answer says the question again, of this turn or the one before, and adds one name; another one is refused."""
    text = "# Trees\n\nint tree1_free_node (tree1_node * node)\n\nnode: pointer to the node that you want to free.\n"
    add(
        assistant, tmp_path, "trees.md", f"{text}\nint tree1_add_node (tree1_node * node) adds a node and returns it.\n"
    )
    conversation = Conversation()
    engine.enqueue(
        "The function that adds a TREE.1 node is tree1_add_node.",
        "The function that frees a TREE.1 node is tree1_free_node.",
        "The function that frees a TREE.1 node is tree1_drop_node.",
    )
    first = await answer(assistant, "Which function adds a TREE.1 node?", conversation=conversation)
    assert (first.abstained, len(first.citations)) == (False, 1)
    then = await answer(assistant, "And which one frees it?", conversation=conversation)
    assert [citation.quote for citation in then.citations] == ["int tree1_free_node (tree1_node * node)"]
    invented = await answer(assistant, "And which one frees it?", conversation=conversation)
    assert (invented.abstained, invented.citations) == (True, ())


async def test_documents_come_and_go_without_an_engine(assistant: Assistant, power: FakePower, tmp_path: Path) -> None:
    """Add, list, search, remove; after remove nothing finds it, nor is it asked about."""
    doc_id = add(assistant, tmp_path)
    assert [document.id for document in assistant.documents()] == [doc_id]
    assert assistant.search("What does a card cost?")[0].doc_id == doc_id
    assistant.remove(doc_id)
    assert (assistant.documents(), assistant.search("What does a card cost?")) == ([], [])
    with pytest.raises(Problem) as caught:
        await answer(assistant, "What does a card cost?", doc_id=doc_id)
    assert caught.value.code == "not_found"
    assert power.num_connects == 0


async def test_many_first_questions_at_once_start_one_engine(
    assistant: Assistant, power: FakePower, tmp_path: Path
) -> None:
    """One lease for one assistant."""
    add(assistant, tmp_path)
    await asyncio.gather(*(answer(assistant, f"When does it open? {number}") for number in range(8)))
    assert power.num_connects == 1


async def test_bases_share_no_cache(assistant: Assistant, engine: FakeEngine, tmp_path: Path) -> None:
    """The same document in two bases: the second base's first question is cold, so that nobody can time the first."""
    add(assistant, tmp_path)
    assistant.add(tmp_path / "library.md", kb="private")
    await answer(assistant, "When does it open?")
    receipt = (await answer(assistant, "When does it open?", kb="private")).receipt
    assert receipt is not None
    assert receipt.cached_tokens == 0


async def test_cache_apart_is_cold_each_time_and_warm_within(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """What the demo measures with."""
    add(assistant, tmp_path)
    cached = []
    for apart in ("run 1", "run 1", "run 2", "run 2"):
        receipt = (await answer(assistant, "When does it open?", apart=apart)).receipt
        assert receipt is not None
        cached.append(receipt.cached_tokens or 0)
        assert receipt.cold_because in ("first_use", None)
    assert cached[0] == cached[2] == 0
    assert cached[1] == cached[3] > 0


async def test_event_loop_goes_on_while_a_question_is_planned(assistant: Assistant, tmp_path: Path) -> None:
    """Search and tokenising run in threads: a clock on the loop never stands still for long."""
    add(assistant, tmp_path, "pumps.md", long_text(12))
    ticks = 0

    async def clock() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    def slow_search(*args: object, **more: object) -> list[object]:
        time.sleep(0.2)
        return []

    assistant.corpus.search = slow_search  # type: ignore[method-assign, assignment]
    ticking = asyncio.create_task(clock())
    await answer(assistant, "What about pump Fir?")
    ticking.cancel()
    assert ticks > 50


@pytest.mark.parametrize(
    ("question", "code"), [("", "empty_question"), (" \0 ", "empty_question"), ("x" * 9000, "question_too_long")]
)
async def test_question_that_cannot_be_put_is_refused(assistant: Assistant, question: str, code: str) -> None:
    """One sentence, before anything is searched."""
    with pytest.raises(Problem) as caught:
        await answer(assistant, question)
    assert caught.value.code == code


async def test_section_that_the_model_cannot_hold_says_what_to_set(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """Never cut silently: the sentence names the setting and a value."""
    engine._max_model_len = 1500
    add(assistant, tmp_path, "pumps.md", long_text(12))
    with pytest.raises(Problem, match=r"READONCE_SECTION_TOKENS=\d+") as caught:
        await answer(assistant, "How fast is pump Fir?")
    assert caught.value.code == "section_too_long"


async def test_chinese_question_gets_chinese_words(assistant: Assistant, engine: FakeEngine, tmp_path: Path) -> None:
    """Citations by pairs of characters; abstention in the question's language."""
    add(assistant, tmp_path, "metro.md", METRO)
    engine.enqueue("该站于2009年9月28日启用【2】。", "The document does not say.")
    said = await answer(assistant, "望江路站何时启用？")
    assert said.text == "该站于2009年9月28日启用 [1]。"
    assert "2009年9月28日" in said.citations[0].quote
    assert (await answer(assistant, "票价多少？")).text == "此文档中没有（已读全部 1 页）。"


async def test_close_gives_the_engine_back_lingering_or_not(
    assistant: Assistant, power: FakePower, tmp_path: Path
) -> None:
    """A command lingers; `serve` does not."""
    add(assistant, tmp_path)
    await answer(assistant, "When does it open?")
    await assistant.close(linger=False)
    assert power.released == [False]


class Ending(FakeEngine):
    """Breaks off after so many words of its first answer, as an engine does that is stopped or killed."""

    words_left = 0
    code = "engine_unreachable"

    async def generate(self, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
        async with aclosing(super().generate(prompt, sampling)) as stream:
            async for piece in stream:
                if self.words_left == 0:
                    raise EngineError(self.code, "The engine is gone.")
                self.words_left -= 1
                yield piece


def ending(power: FakePower, monkeypatch: pytest.MonkeyPatch, words: int, code: str = Ending.code) -> None:
    """The engine in use ends after `words`; the next one is a whole one."""
    whole, broken = power.engine, Ending(power.tokenizer, max_model_len=65_536, num_blocks=16_384)
    broken.words_left, broken.code = words, code
    engines = iter([broken, whole])
    connect = power.connect

    async def one_after_the_other(report: Callable[[str], None]) -> tuple[Engine, Tokenizer]:
        await connect(report)
        return next(engines), power.tokenizer

    monkeypatch.setattr(power, "connect", one_after_the_other)


@pytest.mark.parametrize("code", ["engine_unreachable", "engine_failed"])
async def test_a_question_whose_engine_ended_is_answered_by_the_next(
    assistant: Assistant,
    power: FakePower,
    engine: FakeEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
) -> None:
    """Stopped or killed since the last question: it is found or started again, and one turn is kept."""
    add(assistant, tmp_path)
    ending(power, monkeypatch, 0, code)
    engine.enqueue("A card costs 12 euros a year [3].")
    await assistant.start()
    monkeypatch.setattr(power, "has_ended", lambda wait_s=0.0: power.num_connects == 1 and wait_s > 0)
    conversation = Conversation()
    came = await events(assistant, "What does a card cost?", conversation=conversation)
    assert [type(event) for event in came if not isinstance(event, Words)] == [Reading, Reading, Answer]
    last = came[-1]
    assert isinstance(last, Answer)
    assert last.text == "A card costs 12 euros a year [1]."
    assert (power.num_connects, power.released, len(conversation.turns)) == (2, [True], 1)


async def test_an_engine_known_to_have_ended_is_not_asked(
    assistant: Assistant, power: FakePower, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent to it: the next one is looked for first."""
    add(assistant, tmp_path)
    ending(power, monkeypatch, words=0)
    await assistant.start()
    power.ended = True
    came = await events(assistant, "What does a card cost?")
    assert [type(event) for event in came if not isinstance(event, Words)] == [Reading, Answer]
    assert (power.num_connects, len(engine.calls)) == (2, 1)


@pytest.mark.parametrize(("words", "has_ended"), [(1, True), (0, False)])
async def test_an_answer_that_broke_in_the_middle_is_not_begun_again(
    assistant: Assistant,
    power: FakePower,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: int,
    has_ended: bool,
) -> None:
    """Its words were read already; nor is one asked again whose engine is there, or elsewhere: both say it."""
    add(assistant, tmp_path)
    ending(power, monkeypatch, words)
    await assistant.start()
    monkeypatch.setattr(power, "has_ended", lambda wait_s=0.0: has_ended and wait_s > 0)
    with pytest.raises(EngineError, match="The engine is gone"):
        await events(assistant, "What does a card cost?")
    assert power.num_connects == 1
