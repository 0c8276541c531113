"""A batch over vLLM's cache rules: each document is read once whatever the order, and every question is answered."""

from __future__ import annotations

import asyncio
import errno
import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from batch_kit import add_documents, assistant_of, computed_tokens, engine_of, prefills, questions_of

from app.assistant import Assistant
from app.batch.options import BatchOptions
from app.batch.pool import Pool
from app.batch.progress import Progress
from app.batch.question import BatchAnswer, BatchQuestion
from app.batch.run import cost, open_log, run
from app.conversation import Turn
from app.settings import Settings
from engine.tokenizer import Tokenizer

ANSWER_TOKENS = 16


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(answer_tokens=ANSWER_TOKENS)


async def plain_loop(assistant: Assistant, questions: list[BatchQuestion]) -> None:
    for question in questions:
        doc_id = assistant.find(question.document or "").id
        async for _ in assistant.ask(question.question, doc_id=doc_id):
            pass


async def test_any_order_of_questions_reads_each_document_once(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Twenty shuffles of 100 questions about 50 documents, in a pool that holds four of them."""
    filling = assistant_of(settings, engine_of(tokenizer, 4), tokenizer)
    add_documents(filling, tmp_path, 50)
    questions = questions_of(50, 2)
    await filling.close()
    for seed in range(20):
        engine = engine_of(tokenizer, 4)
        assistant = assistant_of(settings, engine, tokenizer)
        shuffled = [replace(one, row=row) for row, one in enumerate(random.Random(seed).sample(questions, 100))]
        result = await run(assistant, shuffled, BatchOptions(at_once=4))
        await assistant.close()
        assert prefills(engine) == 50
        assert (result.progress.num_reads, result.progress.num_failed) == (50, 0)
        assert [answer.id for answer in result.answers] == [question.id for question in shuffled]


async def test_a_plain_loop_in_the_files_order_reads_each_document_for_each_question(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """What the plan saves: a cache of four documents finds nothing in a file that goes through ten in turn."""
    engine = engine_of(tokenizer, 4)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 10)
    await plain_loop(assistant, questions_of(10, 3))
    await assistant.close()
    assert prefills(engine) == 30


@pytest.mark.parametrize("warm_before", [0, 2])
async def test_dry_run_says_to_the_token_what_the_engine_computes(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path, warm_before: int
) -> None:
    """Reads and tokens; what the engine holds already is not counted."""
    engine = engine_of(tokenizer, 6)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 8)
    for number in range(warm_before):
        await assistant.warm(assistant.find(f"wall-{number:02}.md").id)
    before = computed_tokens(engine)
    questions = questions_of(8, 5)
    said = await cost(assistant, questions, BatchOptions(at_once=4))
    assert computed_tokens(engine) == before
    result = await run(assistant, questions, BatchOptions(at_once=4))
    await assistant.close()
    assert (said.questions, said.documents, said.prefixes, said.is_exact) == (40, 8, 8, True)
    assert said.reads == result.progress.num_reads == 8 - warm_before
    assert said.computed_tokens == computed_tokens(engine) - before
    assert said.read_tokens == result.progress.read_tokens
    assert said.question_tokens == result.progress.prompt_tokens - result.progress.cached_tokens
    assert said.plain_tokens == result.progress.prompt_tokens


async def test_what_earlier_questions_left_makes_a_dry_run_say_about(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Nobody tells which of their blocks are held: it says at most what is computed for questions. Once those documents
    are gone, it is exact again."""
    engine = engine_of(tokenizer, 3)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 5)
    questions = questions_of(5, 2)
    of_one, of_others = ([one for one in questions if (one.document == "wall-00.md") is same] for same in (True, False))
    await run(assistant, of_one)
    again = await cost(assistant, of_one)
    before = computed_tokens(engine)
    await run(assistant, of_one)
    assert (again.reads, again.is_exact) == (0, False)
    assert computed_tokens(engine) - before <= again.computed_tokens
    await run(assistant, of_others)
    gone = await cost(assistant, of_one)
    before = computed_tokens(engine)
    await run(assistant, of_one)
    await assistant.close()
    assert (gone.reads, gone.is_exact) == (1, True)
    assert computed_tokens(engine) - before == gone.computed_tokens


async def test_what_the_engine_holds_is_asked_about_first(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Else the others would push it out before its turn."""
    engine = engine_of(tokenizer, 3)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 6)
    last = assistant.find("wall-05.md").id
    await assistant.warm(last)
    told: list[str] = []

    def tell(answer: BatchAnswer | None, progress: Progress) -> None:
        if answer is not None:
            told.append(answer.doc_id)

    result = await run(assistant, questions_of(6, 2), BatchOptions(at_once=1), told=tell)
    await assistant.close()
    assert told[:2] == [last, last]
    assert result.progress.num_reads == 5


async def test_questions_of_a_batch_go_behind_those_of_a_chat(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Every question of it carries a lower priority than a chat's, and no more are in the engine than were allowed."""
    engine = engine_of(tokenizer, 4)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 3)
    most = 0

    def tell(answer: BatchAnswer | None, progress: Progress) -> None:
        nonlocal most
        most = max(most, engine.num_running)

    await run(assistant, questions_of(3, 8), BatchOptions(at_once=3), told=tell)
    asked = [call for call in engine.calls if call.sampling.max_tokens == ANSWER_TOKENS]
    async for _ in assistant.ask("How many steps has it?", doc_id=assistant.find("wall-00.md").id):
        pass
    await assistant.close()
    assert len(asked) == 24
    assert {call.sampling.priority for call in asked} == {5}
    assert engine.calls[-1].sampling.priority == 0
    assert most <= 4  # three answers, and the next document's read


async def test_follow_ups_are_asked_with_the_questions_and_answers_before_them(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Each prompt of a chain begins with the prompt and the answer before it, id by id, whatever order rows have."""
    engine = engine_of(tokenizer, 4)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 2)
    chain = [
        BatchQuestion(0, "third", "Why?", "wall-01.md", follow_up_of="second"),
        BatchQuestion(1, "first", "How many steps has wall 01?", "wall-01.md"),
        BatchQuestion(2, "second", "And its colour?", "wall-01.md", follow_up_of="first"),
        BatchQuestion(3, "other", "How many steps has wall 00?", "wall-00.md"),
    ]
    result = await run(assistant, chain, BatchOptions(at_once=4))
    await assistant.close()
    assert [answer.error for answer in result.answers] == [None] * 4
    assert [answer.id for answer in result.answers] == ["third", "first", "second", "other"]
    named = [call for call in engine.calls if call.prompt.prefix.name.endswith("wall-01.md/1")]
    asked = [call for call in named if call.sampling.max_tokens == ANSWER_TOKENS]
    for before, after in itertools.pairwise(asked):
        so_far = (*before.prompt.token_ids, *before.output_ids)
        assert after.prompt.token_ids[: len(so_far)] == so_far
    assert len(asked) == 3


async def test_follow_ups_across_documents_wait_for_their_answer(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """There and back again: the second visit finds the document still there."""
    engine = engine_of(tokenizer, 4)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 3)
    chain = [
        BatchQuestion(0, "a", "How many steps has it?", "wall-00.md"),
        BatchQuestion(1, "b", "How many steps has that one, the other wall?", "wall-01.md", follow_up_of="a"),
        BatchQuestion(2, "c", "Has wall 00 more steps than wall 01?", "wall-00.md", follow_up_of="b"),
    ]
    result = await run(assistant, chain, BatchOptions(at_once=2))
    await assistant.close()
    assert [answer.error for answer in result.answers] == [None] * 3
    assert prefills(engine) == 2
    lengths = [call.prompt.num_tokens for call in engine.calls if call.sampling.max_tokens == ANSWER_TOKENS]
    assert lengths == sorted(lengths)


async def test_a_row_that_fails_keeps_no_other_from_its_answer(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Each says what is wrong with it, with a stable code; what follows a failed one fails with it."""
    engine = engine_of(tokenizer, 4)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 2)
    questions = [
        BatchQuestion(0, "a", "How many steps has it?", "wall-00.md"),
        BatchQuestion(1, "b", "How many steps has it?", "wall-77.md"),
        BatchQuestion(2, "c", "And its colour?", "wall-00.md", follow_up_of="b"),
        BatchQuestion(3, "d", " ", "wall-00.md"),
        BatchQuestion(4, "e", "And its colour?", "wall-00.md", follow_up_of="z"),
        BatchQuestion(5, "f", "And its colour?", "wall-00.md", follow_up_of="g"),
        BatchQuestion(6, "g", "And its width?", "wall-00.md", follow_up_of="f"),
        BatchQuestion(7, "h", "How many?", "wall-00.md", filters=(("tag", "x"),)),
        BatchQuestion(8, "i", "How high is it?" * 500, "wall-00.md"),
    ]
    result = await run(assistant, questions, BatchOptions(at_once=2))
    await assistant.close()
    codes = [answer.error.code if answer.error else "" for answer in result.answers]
    assert codes == [
        "",
        "not_found",
        "earlier_failed",
        "empty_question",
        "unknown_question",
        "follows_itself",
        "follows_itself",
        "unknown_filter",
        "question_too_long",
    ]
    assert (result.progress.num_done, result.progress.num_failed, result.stopped) == (9, 8, None)


async def test_rows_narrow_their_searches(settings: Settings, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """By tags here: a row's own go before the batch's, and where no document is left the row says so."""
    assistant = assistant_of(settings, engine_of(tokenizer, 4), tokenizer)
    add_documents(assistant, tmp_path, 3)
    for number, tag in enumerate(("north", "south")):
        assistant.corpus.change_tags(assistant.find(f"wall-{number:02}.md").id, "default", add=[tag])
    asked = "How many steps has the wall?"
    questions = [
        BatchQuestion(0, "a", asked),
        BatchQuestion(1, "b", asked, filters=(("tags", "south"),)),
        BatchQuestion(2, "c", asked, filters=(("tags", "north, south"),)),
        BatchQuestion(3, "d", asked, "wall-02.md", filters=(("pages", "two"), ("tags", ""))),
    ]
    result = await run(assistant, questions, BatchOptions(filters=(("tags", "North"),)))
    await assistant.close()
    assert [answer.document for answer in result.answers] == ["Wall 00", "Wall 01", "", ""]
    codes = [answer.error.code if answer.error else "" for answer in result.answers]
    assert codes == ["", "", "nothing_matches", "bad_filter"]


async def test_too_many_failures_stop_a_batch(settings: Settings, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """More than allowed; what was answered is kept. Those that fail before any is asked count too, and then none is."""
    engine = engine_of(tokenizer, 4)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 1)
    questions = [BatchQuestion(row, str(row), "How high is it?" * 500, "wall-00.md") for row in range(9)]
    result = await run(assistant, questions, BatchOptions(at_once=1, max_failures=2))
    assert result.stopped is not None
    assert (result.stopped.code, len(result.answers)) == ("too_many_failures", 3)
    nowhere = [replace(one, document="wall-77.md") for one in questions[:4]]
    sound = questions_of(1, 9)[4:]
    result = await run(assistant, [*nowhere, *sound], BatchOptions(max_failures=3))
    await assistant.close()
    assert result.stopped is not None
    assert (result.stopped.code, len(result.answers)) == ("too_many_failures", 4)
    assert all(call.sampling.max_tokens != ANSWER_TOKENS for call in engine.calls)


async def test_own_instructions_are_another_prefix_that_goes_at_the_end(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """They stand at the very beginning, in a cache of their own; chats go on with what they had."""
    engine = engine_of(tokenizer, 4)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 1)
    doc_id = assistant.find("wall-00.md").id
    await assistant.warm(doc_id)
    result = await run(assistant, questions_of(1, 3), BatchOptions(at_once=2, instructions="Answer like a clerk."))
    assert result.progress.num_reads == 1
    text = tokenizer.fast.decode(list(engine.calls[-1].prompt.token_ids[:200]))
    assert "Answer like a clerk." in text
    assert len({call.prompt.prefix.namespace for call in engine.calls}) == 2
    assert [handle.id for handle in engine.handles] == [engine.calls[0].prompt.prefix.id]
    await assistant.warm(doc_id)
    await assistant.close()
    assert (engine.calls[-1].cached_tokens or 0) > 3_000


async def test_two_batches_at_once_share_what_is_read(settings: Settings, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Each has its answers in its own order, and a document that both ask about is read for one of them alone."""
    engine = engine_of(tokenizer, 8)
    first, second = (assistant_of(settings, engine, tokenizer) for _ in range(2))
    add_documents(first, tmp_path, 3)
    questions = questions_of(3, 4)
    forth = await run(first, questions, BatchOptions(at_once=2))
    one, other = await asyncio.gather(
        run(first, questions, BatchOptions(at_once=2)),
        run(second, list(reversed(questions_of(3, 5))), BatchOptions(at_once=2)),
    )
    await first.close()
    await second.close()
    assert [answer.row for answer in one.answers] == list(range(12))
    assert [answer.row for answer in other.answers] == list(range(15))
    assert {answer.error for answer in (*one.answers, *other.answers)} == {None}
    assert (prefills(engine), forth.progress.num_reads, one.progress.num_reads) == (3, 3, 0)


@pytest.mark.parametrize(("at_once", "prefix_tokens", "room"), [(8, 2_000, 8), (128, 2_000, 15), (8, 9_900, 1)])
def test_no_more_answers_run_than_find_room(at_once: int, prefix_tokens: int, room: int) -> None:
    """512 tokens each, question and answer, in a pool of 10,000; one runs in any case."""
    assert Pool(10_000, 32, lambda: None).room_for(at_once, prefix_tokens, 256) == room


async def test_a_disk_that_is_full_stops_the_batch_before_more_is_asked(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be kept is not told as an answer: it is asked again when the batch goes on."""
    engine = engine_of(tokenizer, 4)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 1)
    questions = questions_of(1, 9)
    log = open_log(tmp_path / "out.csv", questions, BatchOptions())
    keep = log.add
    kept = 0

    def add(answer: BatchAnswer, turn: Turn | None) -> None:
        nonlocal kept
        if kept == 3:
            raise OSError(errno.ENOSPC, "No space left on device", "out.csv")
        kept += 1
        keep(answer, turn)

    monkeypatch.setattr(log, "add", add)
    result = await run(assistant, questions, BatchOptions(at_once=1), log=log)
    log.close()
    await assistant.close()
    assert result.stopped is not None
    assert (result.stopped.code, len(result.answers)) == ("disk_refused", 3)
    assert sum(call.sampling.max_tokens == ANSWER_TOKENS for call in engine.calls) == 4


@pytest.mark.parametrize(("num_documents", "wave", "together"), [(8, 1, 1), (8, 3, 3), (8, 9, 7), (4, 9, 4)])
async def test_a_wave_is_read_before_the_questions_on_it_begin_as_far_as_the_pool_reaches(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path, num_documents: int, wave: int, together: int
) -> None:
    """So many reads come before the first question, and each document is still read once."""
    engine = engine_of(tokenizer, num_documents)
    assistant = assistant_of(settings, engine, tokenizer)
    add_documents(assistant, tmp_path, 7)
    options = BatchOptions(at_once=2, wave=wave)
    said = await cost(assistant, questions_of(7, 3), options)
    result = await run(assistant, questions_of(7, 3), options)
    await assistant.close()
    asked = [call.sampling.max_tokens == ANSWER_TOKENS for call in engine.calls]
    assert asked.index(True) == together
    assert (prefills(engine), said.reads, result.progress.num_reads, result.progress.num_failed) == (7, 7, 7, 0)


@pytest.mark.parametrize(("device", "together"), [("cpu", 1), ("gpu", 7)])
async def test_on_a_gpu_documents_are_read_before_the_questions_and_on_a_cpu_one_by_one(
    tokenizer: Tokenizer, tmp_path: Path, device: Literal["cpu", "gpu"], together: int
) -> None:
    """A GPU has nothing to spare beside a read; on a CPU the first answers would be long in coming."""
    engine = engine_of(tokenizer, 8)
    assistant = assistant_of(Settings.load(answer_tokens=ANSWER_TOKENS, device=device), engine, tokenizer)
    add_documents(assistant, tmp_path, 7)
    result = await run(assistant, questions_of(7, 3), BatchOptions(at_once=2))
    await assistant.close()
    asked = [call.sampling.max_tokens == ANSWER_TOKENS for call in engine.calls]
    assert (asked.index(True), result.progress.num_reads) == (together, 7)


async def test_a_path_from_another_machine_names_the_document_that_bears_its_files_name(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """As spreadsheets have it; what is no path of a file is not searched for by its end."""
    assistant = assistant_of(settings, engine_of(tokenizer, 4), tokenizer)
    add_documents(assistant, tmp_path, 2)
    named = [r"C:\\Walls\\2031\\wall-01.md", "/srv/walls/wall-00.md", "Coast/Wall 01", "old/wall-07.md"]
    questions = [BatchQuestion(row, str(row), "How many steps has it?", name) for row, name in enumerate(named)]
    result = await run(assistant, questions, BatchOptions(at_once=2))
    await assistant.close()
    assert [answer.document for answer in result.answers] == ["Wall 01", "Wall 00", "", ""]
    errors = [answer.error for answer in result.answers if answer.error]
    assert [error.code for error in errors] == ["not_found"] * 2
    assert '"old/wall-07.md"' in errors[1].message


async def test_an_answer_that_ends_where_answers_have_to_is_marked(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Else nobody sees which one was cut in the middle."""
    texts = iter(["Geese.", "Geese. " * ANSWER_TOKENS])
    assistant = assistant_of(settings, engine_of(tokenizer, 4, lambda prompt: next(texts)), tokenizer)
    add_documents(assistant, tmp_path, 1)
    result = await run(assistant, questions_of(1, 2), BatchOptions(at_once=1))
    await assistant.close()
    assert [answer.is_cut for answer in result.answers] == [False, True]
