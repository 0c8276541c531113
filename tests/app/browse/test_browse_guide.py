"""The source guide: one question on what is read already, kept with the document's bytes, gone with them."""

from __future__ import annotations

import json

import pytest
from browse_kit import MARSH, Pages, words
from fake_view import view_of
from hypothesis import given
from hypothesis import strategies as st

from app.browse.beginning import chosen_questions
from app.browse.chosen import KEPT_S, TAKEN_S, Chosen
from app.browse.guides import MOST_SUMMARY_CHARACTERS, NUM_QUESTIONS, PRIORITY, parsed
from app.guide_store import GUIDES_NAME, Guide, GuideStore, keep_guides_of
from app.page.documents import Choice

QUESTIONS = [
    "Who opens the sluice?",
    "When is the sluice opened?",
    "What does Ilse Torp do every morning?",
    "What is opened at half past five?",
    "Which book tells of the marsh?",
]
SAID = json.dumps({"summary": "It tells of a sluice [1]. Ilse Torp opens it. It is early.", "questions": QUESTIONS})


async def upload(pages: Pages, name: str = "new.md", text: str = MARSH + "It is shut at noon.\n") -> str:
    await pages.browser("anna").post("/documents/harbour", files=[(name, text.encode())])
    await pages.settled()
    return next(each.id for each in pages.assistant.documents("harbour") if each.name == name)


async def test_a_guide_comes_by_itself_and_costs_its_tail_alone(pages: Pages) -> None:
    """After the upload is warm: one question behind everybody's, the prefix from the cache, and it is on the page."""
    pages.engine.enqueue(SAID)
    doc_id = await upload(pages)
    asked = [call for call in pages.engine.calls if call.sampling.max_tokens > 1]
    [call] = [call for call in asked if call.prompt.prefix.name == "harbour/new.md/1"]
    assert call.sampling.priority == PRIORITY
    block = pages.engine.cache.block_size
    assert call.cached_tokens == call.prompt.prefix.num_tokens // block * block
    said = words((await pages.browser("ben").get(f"/documents/harbour/{doc_id}")).text)
    assert "It tells of a sluice. Ilse Torp opens it. It is early." in said
    assert all(question in said for question in QUESTIONS)
    pages.power.view = view_of(pages.engine)
    num_calls = len(pages.engine.calls)
    await pages.browser("ben").get(f"/documents/harbour/{doc_id}")
    await pages.settled()
    assert len(pages.engine.calls) == num_calls


async def test_a_document_that_is_warm_without_a_guide_gets_one_when_its_page_is_opened(pages: Pages) -> None:
    """One that came by the command line; a cold one is not read for its guide."""
    document = next(each for each in pages.assistant.documents("harbour") if each.name == "marsh.md")
    path = f"/documents/harbour/{document.id}"
    pages.power.view = view_of(pages.engine)
    assert "written once the document is warm" in (await pages.browser("ben").get(path)).text
    await pages.settled()
    assert pages.engine.calls == []
    await pages.assistant.warm(document.id, kb="harbour")
    pages.power.view = view_of(pages.engine)
    pages.place.glance.again()
    pages.engine.enqueue(SAID)
    assert "It is being written." in (await pages.browser("ben").get(path)).text
    await pages.settled()
    assert "Who opens the sluice?" in (await pages.browser("ben").get(path)).text


async def test_where_no_engine_is_up_no_guide_is_tried(pages: Pages) -> None:
    pages.place.host.state = "starting"
    document = pages.assistant.documents("harbour")[0]
    pages.place.guides.make_soon(pages.place.host, document.id, "harbour")
    assert not pages.place.guides.is_making(document.id)
    assert pages.power.num_connects == 0


async def test_a_question_that_finds_nothing_in_the_document_is_left_out(pages: Pages) -> None:
    said = json.dumps({"summary": "A sluice.", "questions": ["Who opens the sluice?", "Which planets have rings?"]})
    pages.engine.enqueue(said)
    doc_id = await upload(pages)
    assert pages.place.guides.get(doc_id) == Guide("A sluice.", ("Who opens the sluice?",))


@pytest.mark.parametrize("deed", ["delete", "replace"])
async def test_a_guide_goes_with_its_document(pages: Pages, deed: str) -> None:
    """Nothing of what the model said of it is left in the file."""
    pages.engine.enqueue(SAID)
    doc_id = await upload(pages)
    assert pages.place.guides.get(doc_id) is not None
    anna, path = pages.browser("anna"), f"/documents/harbour/{doc_id}/{deed}"
    pages.engine.enqueue("{}")
    await (anna.post(path) if deed == "delete" else anna.post(path, files=[("new.md", b"# Another\n\nA text.")]))
    await pages.settled()
    assert pages.place.guides.get(doc_id) is None
    # Into the file itself, where SQLite keeps new pages aside at first.
    pages.place.guides._store._file.run(lambda connection: connection.execute("SELECT 1"))
    pages.place.guides._store._file._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    left = (pages.assistant.settings.home / GUIDES_NAME).read_bytes()
    assert b"Ilse Torp do every" not in left


async def test_a_chat_opened_from_a_document_begins_with_its_questions(pages: Pages) -> None:
    """For who opened it, while they may read it."""
    pages.engine.enqueue(SAID)
    doc_id = await upload(pages)
    await pages.browser("ben").post(f"/documents/harbour/{doc_id}/ask")
    ben, mia = (pages.desk.people.find(name) for name in ("ben", "mia"))
    assert await chosen_questions(pages.place, ben) == QUESTIONS
    assert await chosen_questions(pages.place, mia) == []
    pages.desk.library.unshare(pages.desk.people.find("anna"), "harbour", person="ben")
    assert await chosen_questions(pages.place, ben) == []


def test_a_choice_is_forgotten_after_a_while() -> None:
    """And a moment after a chat has begun with it: the chat after the next begins as always."""
    now = [0.0]
    chosen = Chosen(lambda: now[0])
    chosen.put("ben", Choice("harbour", "1"))
    now[0] = KEPT_S - TAKEN_S - 1
    assert chosen.take("ben") == Choice("harbour", "1")
    now[0] += TAKEN_S - 0.1
    assert chosen.look("ben") == Choice("harbour", "1")
    now[0] += 0.1
    assert chosen.look("ben") is None
    chosen.put("ben", Choice("harbour", "2"))
    now[0] += KEPT_S
    assert chosen.take("ben") is None


def test_a_guide_of_another_model_is_made_again(tmp_path) -> None:
    """And those of documents that have gone are erased, of each model's."""
    first, second = GuideStore(tmp_path, "a"), GuideStore(tmp_path, "b")
    first.put("one", Guide("x", ("y",)))
    first.put("two", Guide("z", ()))
    assert (second.get("one"), first.get("one")) == (None, Guide("x", ("y",)))
    keep_guides_of(tmp_path, {"two"})
    assert (first.get("one"), first.get("two")) == (None, Guide("z", ()))
    keep_guides_of(tmp_path / "none", set())
    assert not (tmp_path / "none").exists()


@given(st.integers(0, len(SAID)))
def test_an_answer_that_was_cut_off_gives_what_was_whole(end: int) -> None:
    """Questions are those that were written, none of them half."""
    guide = parsed(SAID[:end])
    assert list(guide.questions) == QUESTIONS[: len(guide.questions)]
    assert "It tells of a sluice. Ilse Torp opens it. It is early.".startswith(guide.summary)


@given(st.text(max_size=300), st.lists(st.one_of(st.text(max_size=300), st.integers(), st.none()), max_size=9))
def test_a_guide_leads_nowhere_and_keeps_its_bounds(summary: str, questions: list[object]) -> None:
    """Whatever a document made the model write: one line each, no address, no more than five, none twice."""
    evil = f"{summary} ![x](https://example.org/leak) http://example.org www.example.org"
    guide = parsed(json.dumps({"summary": evil, "questions": [*questions, evil]}))
    assert len(guide.summary) <= MOST_SUMMARY_CHARACTERS
    assert len(guide.questions) == len(set(guide.questions)) <= NUM_QUESTIONS
    for said in (guide.summary, *guide.questions):
        assert "\n" not in said
        assert "example.org" not in said


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"summary": 3, "questions": "x"}', "{", '{"a": [}'])
def test_what_is_no_guide_is_an_empty_one(text: str) -> None:
    assert parsed(text) == Guide("", ())
