"""What a question costs before the engine is asked: the second one about a section neither reads nor renders it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest
from library import LIBRARY, NAMES, FakePower, long_text, write

from app.answer import Answer, Event, Reading
from app.assistant import Assistant
from app.reader import TOKENS_NAME, Reader, parse_name
from app.settings import Settings
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer
from ingest.corpus import Corpus


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, corpus: Corpus) -> Iterator[list[str]]:
    """What is read of stored documents while it is open."""
    read: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("text", "pages", "read_document", "paragraphs"):
            original = getattr(corpus, name)

            def noted(doc_id: str, name: str = name, original: object = original) -> object:
                read.append(name)
                return original(doc_id)  # type: ignore[operator]

            patch.setattr(corpus, name, noted)
        yield read


async def until_reading(assistant: Assistant, question: str) -> Reading:
    """Asks, and looks no further than where the engine would be asked."""
    async with aclosing(assistant.ask(question)) as events:
        async for event in events:
            assert isinstance(event, Reading)
            return event
    raise AssertionError("nothing was read")


async def answer(assistant: Assistant, question: str) -> Answer:
    last: Event | None = None
    async with aclosing(assistant.ask(question)) as events:
        async for event in events:
            last = event
    assert isinstance(last, Answer)
    return last


@pytest.mark.parametrize("chapters", [1, 12])
async def test_second_question_reads_nothing_of_the_document_and_encodes_only_itself(
    assistant: Assistant, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chapters: int
) -> None:
    """Whole documents and sections of one, until the engine is asked; the sources are read for the answer."""
    assistant.add(write(tmp_path, "pumps.md", long_text(chapters)))
    await answer(assistant, f"How many revolutions does pump {NAMES[0]} run at?")
    encoded: list[str] = []
    encode = tokenizer.encode_text
    monkeypatch.setattr(tokenizer, "encode_text", lambda text: (encoded.append(text), encode(text))[1])
    question = f"What colour is pump {NAMES[0]} painted?"
    with counted(monkeypatch, assistant.corpus) as read:
        await until_reading(assistant, question)
        assert read == []
        assert encoded == [f"user\n{question}"]
    with counted(monkeypatch, assistant.corpus) as read:
        await answer(assistant, question)
        assert sorted(read) == ["paragraphs", "read_document"]


async def test_another_process_reads_nothing_of_the_document_either(
    assistant: Assistant, settings: Settings, power: FakePower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids are kept under the section's place; the handle is the same."""
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    first = await until_reading(assistant, "When does it open?")
    later = Assistant(settings, Corpus.open(settings.home, settings.ingest), power)  # type: ignore[arg-type]
    with counted(monkeypatch, later.corpus) as read:
        again = await until_reading(later, "When does it open?")
    assert (again, read) == (first, [])
    await later.close()


async def test_document_that_came_back_under_another_title_is_rendered_anew(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """The title is part of what the model reads: the same bytes under another name are another prefix."""
    prefixes = []
    for name in ("minutes.txt", "protocol.txt"):
        doc_id = assistant.add(write(tmp_path, name, "The meeting began at nine and ended at ten.")).document_id
        await answer(assistant, "When did it begin?")
        prefixes.append(engine.calls[-1].prompt.prefix)
        assistant.remove(doc_id)
    assert [prefix.name for prefix in prefixes] == ["default/minutes.txt/1", "default/protocol.txt/1"]
    decode = assistant.engines.now.layout.tokenizer.decode  # type: ignore[union-attr]
    assert ["protocol" in decode(prefix.token_ids) for prefix in prefixes] == [False, True]


async def test_removed_document_leaves_no_ids_behind(
    assistant: Assistant, settings: Settings, power: FakePower, tmp_path: Path
) -> None:
    """Nor does a replaced one; what is still in another base stays."""
    path = write(tmp_path, "library.md", LIBRARY)
    doc_id = assistant.add(path).document_id
    assistant.add(path, kb="private")
    await answer(assistant, "When does it open?")

    def num_kept() -> int:
        with sqlite3.connect(settings.home / TOKENS_NAME) as connection:
            return int(connection.execute("SELECT count(*) FROM tokens").fetchone()[0])

    assistant.remove(doc_id)
    assert num_kept() == 1
    assistant.remove(doc_id, "private")
    assert num_kept() == 0
    assistant.add(path)
    await answer(assistant, "When does it open?")
    assert num_kept() == 1
    replaced = assistant.add(write(tmp_path, "library.md", LIBRARY + "\nIt has a garden.\n"))
    assert (replaced.status, num_kept()) == ("replaced", 0)


async def test_prefixes_used_last_stay_in_memory(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same object for the next question; never more than a bounded number."""
    monkeypatch.setattr("app.reader.MOST_PREFIXES", 2)
    ids = [
        assistant.add(write(tmp_path, f"{name}.txt", f"The {name} has {name} leaves.")).document_id
        for name in ("alder", "birch", "cedar")
    ]
    for doc_id in (ids[0], ids[1], ids[0], ids[2], ids[0], ids[1]):
        await assistant.warm(doc_id)
    first, second, again, _, still, gone = (call.prompt.prefix for call in engine.calls)
    assert first is again is still
    assert gone is not second
    assert gone == second


async def test_history_and_question_follow_the_prefix_as_the_layout_puts_them(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    """One encoding of the question gives the very prompt that the layout lays out."""
    from app.conversation import Conversation

    assistant.add(write(tmp_path, "library.md", LIBRARY))
    conversation = Conversation()
    async with aclosing(assistant.ask("When does it open?", conversation=conversation)) as events:
        async for _ in events:
            pass
    reader = assistant.engines.now
    assert isinstance(reader, Reader)
    async with aclosing(assistant.ask("And on Saturdays?", conversation=conversation)) as events:
        async for _ in events:
            pass
    prompt = engine.calls[-1].prompt
    assert conversation.turns[0].ids
    assert prompt == reader.layout.ask(prompt.prefix, "And on Saturdays?", history_ids=conversation.turns[0].ids)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("default/library.md/1", ("default", "library.md", frozenset({1}))),
        ("kb/a/b.md/2,3", ("kb", "a/b.md", frozenset({2, 3}))),
        ("kb/run 1/x.md/1", ("kb", "run 1/x.md", frozenset({1}))),
        ("first request", None),
        ("kb/x.md/", None),
        ("", None),
    ],
)
def test_prefix_names_are_taken_apart(name: str, parts: object) -> None:
    """Base, file and sections; what is none of ours is none."""
    assert parse_name(name) == parts
