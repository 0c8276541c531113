"""A section is tokenised once, for all threads and processes, and a broken store heals."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import pytest
from tiny import write_tiny_tokenizer

from engine.prompt import Layout, SectionText
from engine.tokenizer import Tokenizer
from engine.tokens import SectionTokens

SECTION = SectionText("Cats", ((1, "The cat sleeps."), (2, "It wakes at ten.")))


class CountingLayout(Layout):
    """Counts how often a section is tokenised."""

    count = 0

    def section_ids(self, section: SectionText) -> tuple[int, ...]:
        self.count += 1
        return super().section_ids(section)


@pytest.fixture
def counting(tokenizer: Tokenizer) -> CountingLayout:
    return CountingLayout(tokenizer)


def test_section_is_tokenised_once_even_after_a_restart(counting: CountingLayout, tmp_path: Path) -> None:
    """A second store over the same file gives the same ids without tokenising."""
    expected = Layout(counting.tokenizer).section_ids(SECTION)
    store = SectionTokens(tmp_path / "deep" / "tokens.sqlite", counting)
    assert [store.get_or_make(SECTION) for _ in range(3)] == [expected] * 3
    store.close()
    assert SectionTokens(tmp_path / "deep" / "tokens.sqlite", counting).get_or_make(SECTION) == expected
    assert counting.count == 1


def test_other_words_numbers_or_tokenizer_are_other_entries(counting: CountingLayout, tmp_path: Path) -> None:
    """The key covers everything that the ids follow from."""
    store = SectionTokens(tmp_path / "tokens.sqlite", counting)
    sections = [SECTION, SectionText("Cats", ((3, "The cat sleeps."),)), SectionText("Dogs", SECTION.paragraphs)]
    assert [store.get_or_make(section) for section in sections] == [counting.section_ids(s) for s in sections]
    plain = Tokenizer(write_tiny_tokenizer(tmp_path / "gpt2"))
    qwen = Tokenizer(write_tiny_tokenizer(tmp_path / "qwen", qwen=True))
    assert plain.fingerprint != qwen.fingerprint
    for tokenizer in (plain, qwen):
        layout = Layout(tokenizer)
        assert SectionTokens(tmp_path / "shared.sqlite", layout).get_or_make(SECTION) == layout.section_ids(SECTION)


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, b""])
def test_broken_file_is_made_again(counting: CountingLayout, tmp_path: Path, damage: bytes) -> None:
    """Whatever lies in the file's place, the ids are right, and kept again."""
    path = tmp_path / "tokens.sqlite"
    path.write_bytes(damage)
    expected = Layout(counting.tokenizer).section_ids(SECTION)
    store = SectionTokens(path, counting)
    assert [store.get_or_make(SECTION), store.get_or_make(SECTION)] == [expected, expected]
    assert counting.count == 1


def test_damaged_entry_is_made_again(counting: CountingLayout, tmp_path: Path) -> None:
    """Ids that do not match their digest are never given out."""
    path = tmp_path / "tokens.sqlite"
    store = SectionTokens(path, counting)
    expected = store.get_or_make(SECTION)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE tokens SET ids = x'0102030405060708'")
    assert store.get_or_make(SECTION) == expected
    assert counting.count == 2


def _fill(folder: str, path: str, results: multiprocessing.Queue) -> None:
    store = SectionTokens(Path(path), Layout(Tokenizer(Path(folder))))
    made = [store.get_or_make(SectionText("T", ((n, f"Paragraph {n}."),))) for n in range(40)]
    results.put(hash(tuple(made)))


def test_several_processes_fill_one_store(tmp_path: Path) -> None:
    """Nobody fails on a locked or half-made file, and all get the same ids."""
    folder = write_tiny_tokenizer(tmp_path / "tiny")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_fill, args=(str(folder), str(tmp_path / "t.sqlite"), results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    answers = {results.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(answers) == 1
    layout = Layout(Tokenizer(folder))
    assert answers == {hash(tuple(layout.section_ids(SectionText("T", ((n, f"Paragraph {n}."),))) for n in range(40)))}
