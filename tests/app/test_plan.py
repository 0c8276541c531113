"""What is read for a question: the whole where it fits, else one section, the same one for the next question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from library import COLOURS, LIBRARY, METRO, NAMES, long_text, write

from app.conversation import Conversation, Turn
from app.plan import Plan, is_well_found, plan
from app.problem import Problem
from app.settings import Settings
from ingest.corpus import Corpus, Hit


@pytest.fixture
def corpus(settings: Settings) -> Iterator[Corpus]:
    made = Corpus.open(settings.home, settings.ingest)
    yield made
    made.close()


def add(corpus: Corpus, folder: Path, name: str, text: str, kb: str = "default") -> str:
    return corpus.add(write(folder, name, text), kb=kb).document_id


def ask(corpus: Corpus, question: str, **more: object) -> Plan:
    return plan(corpus, question, **({"kb": "default"} | more))  # type: ignore[arg-type]


def read(planned: Plan, corpus: Corpus) -> str:
    assert planned.document is not None
    text = corpus.text(planned.document.id)
    return "".join(text[section.start : section.end] for section in planned.sections)


def turn(planned: Plan, question: str) -> Turn:
    assert planned.document is not None
    return Turn(question, (), planned.document.id, tuple(section.number for section in planned.sections))


def test_no_documents_says_what_to_do(corpus: Corpus) -> None:
    """The sentence holds the command, with the base that was asked."""
    with pytest.raises(Problem, match="readonce add FILE` first") as caught:
        ask(corpus, "Anything?")
    assert caught.value.code == "no_documents"
    with pytest.raises(Problem, match="--kb team"):
        ask(corpus, "Anything?", kb="team")


def test_document_within_the_budget_is_read_whole_whatever_is_asked(corpus: Corpus, tmp_path: Path) -> None:
    """Named or the only one: no search can leave out what the answer needs."""
    doc_id = add(corpus, tmp_path, "library.md", LIBRARY)
    for more in ({}, {"doc_id": doc_id}):
        planned = ask(corpus, "xyzzy", **more)
        assert planned.whole
        assert [section.number for section in planned.sections] == [1]


def test_long_document_is_read_in_the_section_of_the_answer(corpus: Corpus, tmp_path: Path) -> None:
    """Twelve chapters, twelve questions: each time the section that holds the fact, and one only."""
    add(corpus, tmp_path, "pumps.md", long_text(12))
    for number, name in enumerate(NAMES, 1):
        planned = ask(corpus, f"How many revolutions does pump {name} run at?")
        assert not planned.whole
        assert len(planned.sections) == 1
        assert f"Pump {name} runs at {number * 137} revolutions" in read(planned, corpus)


def test_same_question_in_other_words_reads_the_same_section(corpus: Corpus, tmp_path: Path) -> None:
    """Reuse depends on it."""
    add(corpus, tmp_path, "pumps.md", long_text(12))
    asked = "What colour is pump Hazel painted?", "Tell me: pump Hazel, painted which colour?", "Pump Hazel's paint?"
    assert len({ask(corpus, question).sections for question in asked}) == 1


def test_nearest_of_several_documents_is_read(corpus: Corpus, tmp_path: Path) -> None:
    """Nobody has to name it."""
    add(corpus, tmp_path, "library.md", LIBRARY)
    metro = add(corpus, tmp_path, "metro.md", METRO)
    planned = ask(corpus, "望江路站何时启用？")
    assert planned.document is not None
    assert planned.document.id == metro
    assert planned.num_documents == 2


def test_other_bases_are_never_read(corpus: Corpus, tmp_path: Path) -> None:
    """A document of another base is neither found nor reachable by its id."""
    add(corpus, tmp_path, "library.md", LIBRARY)
    secret = add(corpus, tmp_path, "metro.md", METRO, kb="private")
    planned = ask(corpus, "望江路站何时启用？")
    assert planned.document is None or planned.document.id != secret
    with pytest.raises(Problem) as caught:
        ask(corpus, "望江路站何时启用？", doc_id=secret)
    assert caught.value.code == "not_found"


def test_nothing_relevant_plans_nothing(corpus: Corpus, tmp_path: Path) -> None:
    """No passage shares a telling word: the model is not asked to guess."""
    add(corpus, tmp_path, "library.md", LIBRARY)
    add(corpus, tmp_path, "pumps.md", long_text(4))
    planned = ask(corpus, "Quetzalcoatl's zeppelin?")
    assert (planned.sections, planned.num_documents) == ((), 2)


def test_question_about_the_whole_reads_the_beginning(corpus: Corpus, tmp_path: Path) -> None:
    """ "Summarise this" names nothing that could be searched."""
    add(corpus, tmp_path, "pumps.md", long_text(12))
    for question in ("What is this document about?", "Please summarize the file.", "这份文件讲了什么？"):
        assert [section.number for section in ask(corpus, question).sections] == [1]


def test_follow_up_is_searched_with_its_conversation(corpus: Corpus, tmp_path: Path) -> None:
    """C24: "And its colour?" means the pump of the question before."""
    add(corpus, tmp_path, "pumps.md", long_text(12))
    for number, name in enumerate(NAMES, 1):
        first = f"How many revolutions does pump {name} run at?"
        conversation = Conversation([turn(ask(corpus, first), first)])
        planned = ask(corpus, "And which colour is it painted?", conversation=conversation)
        assert f"is painted {COLOURS[number % 5]}" in read(planned, corpus)
        assert planned.sections == ask(corpus, first).sections


def test_change_of_subject_leaves_the_section(corpus: Corpus, tmp_path: Path) -> None:
    """Staying warm never goes before reading the right place."""
    add(corpus, tmp_path, "pumps.md", long_text(12))
    first = "How many revolutions does pump Alder run at?"
    conversation = Conversation([turn(ask(corpus, first), first)])
    planned = ask(corpus, "How many revolutions does pump Larch run at?", conversation=conversation)
    assert "Pump Larch runs at" in read(planned, corpus)


def test_follow_up_without_any_hit_stays(corpus: Corpus, tmp_path: Path) -> None:
    """ "Why?" is about what was just read."""
    add(corpus, tmp_path, "pumps.md", long_text(12))
    conversation = Conversation([turn(ask(corpus, "What about pump Fir?"), "zzz")])
    assert ask(corpus, "Why?", conversation=conversation).sections == ask(corpus, "What about pump Fir?").sections


def test_second_section_is_read_only_where_allowed_and_split_and_in_document_order(
    corpus: Corpus, tmp_path: Path
) -> None:
    """Two pumps in one question; never by score, so that both orders of asking give one prefix."""
    add(corpus, tmp_path, "pumps.md", long_text(12))
    asked = "Compare pump Larch with pump Alder", "Compare pump Alder with pump Larch"
    assert {len(ask(corpus, question).sections) for question in asked} == {1}
    both = [ask(corpus, question, max_sections=2).sections for question in asked]
    assert both[0] == both[1]
    assert [section.number for section in both[0]] == sorted(section.number for section in both[0])
    assert len(both[0]) == 2


def hit_of(words: float, meaning: float) -> Hit:
    return Hit("d", 1, 1, None, 0, 1, 0.5, "x", meaning, None, words)


NEARER = [hit_of(0.0, 0.6)] * 5


def test_a_quarter_of_the_words_is_enough_where_meaning_agrees() -> None:
    """Among the five nearest, equal ones counted; half of the words need no second witness."""
    assert not is_well_found([])
    assert is_well_found([hit_of(0.25, 0.5)])
    assert not is_well_found([hit_of(0.24, 0.9)])
    assert is_well_found([*NEARER[:4], hit_of(0.25, 0.5)])
    assert not is_well_found([*NEARER, hit_of(0.25, 0.5)])
    assert is_well_found([*NEARER, hit_of(0.25, 0.6)])
    assert is_well_found([*NEARER, hit_of(0.5, 0.1)])


def test_where_the_embedder_does_not_read_the_question_its_words_decide_alone() -> None:
    """Then no hit has a cosine."""
    assert is_well_found([hit_of(0.2, 0.0)] * 5 + [hit_of(0.25, 0.0)])
